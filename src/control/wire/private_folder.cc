#include "control/wire/private_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "control/keys/private_file.h"
#include "env/files.h"

namespace evermoe {
namespace {

// With room for the names of sockets behind it.
constexpr size_t kRuntimeFolderBytesMax = 64;
// A folder may be taken for a dead one between its making and its locking.
constexpr int kAttemptsMax = 16;

std::string folder_place() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  const bool is_fit = runtime != nullptr && runtime[0] == '/' &&
                      std::strlen(runtime) <= kRuntimeFolderBytesMax &&
                      check_private_folder(runtime).ok();
  return is_fit ? runtime : "/tmp";
}

std::string name_start() { return absl::StrCat("evermoe-", ::geteuid(), "-"); }

FileDescriptor lock_folder(const std::string& path) {
  FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) folder.reset();
  return folder;
}

std::vector<std::string> names_in_folder(const std::string& path) {
  std::vector<std::string> names;
  DIR* const folder = ::opendir(path.c_str());
  if (folder == nullptr) return names;
  while (const dirent* const entry = ::readdir(folder)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(folder);
  return names;
}

void remove_folder(const std::string& path) {
  for (const std::string& name : names_in_folder(path)) ::unlink(join_path(path, name).c_str());
  ::rmdir(path.c_str());
}

// What killed processes of this user have left.
void remove_dead_ones(const std::string& place) {
  for (const std::string& name : names_in_folder(place)) {
    const std::string path = join_path(place, name);
    if (!absl::StartsWith(name, name_start()) || !check_private_folder(path).ok()) continue;
    if (const FileDescriptor dead = lock_folder(path); dead) remove_folder(path);
  }
}

bool is_same_folder(const FileDescriptor& folder, const std::string& path) {
  struct stat open {
  }, named{};
  return ::fstat(folder.get(), &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::make() {
  const std::string where = folder_place();
  remove_dead_ones(where);
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    std::string path = join_path(where, absl::StrCat(name_start(), "XXXXXX"));
    if (::mkdtemp(path.data()) == nullptr)
      return Internal(absl::StrCat("no folder for sockets in ", where, ": ", std::strerror(errno)));
    FileDescriptor locked = lock_folder(path);
    if (locked && is_same_folder(locked, path))
      return std::unique_ptr<PrivateFolder>(new PrivateFolder(path, std::move(locked)));
  }
  return Internal(absl::StrCat("no folder for sockets stays in ", where));
}

PrivateFolder::~PrivateFolder() { remove_folder(path_); }

std::string PrivateFolder::address(const std::string& name) const {
  return absl::StrCat("unix:", join_path(path_, name));
}

}  // namespace evermoe
