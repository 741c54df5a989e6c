#include "control/keys/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "comm/transport/socket.h"

namespace evermoe {
namespace {

absl::Status cannot_open(const std::string& path) {
  const std::string what = absl::StrCat(path, ": ", std::strerror(errno));
  if (errno == ENOENT) return NotFound(what);
  if (errno == EACCES || errno == EPERM || errno == ELOOP || errno == ENOTDIR)
    return InvalidInput(what);
  return Internal(what);
}

absl::Status check_private(const struct stat& found, const std::string& path, const char* mode) {
  if (found.st_uid != ::geteuid()) {
    return InvalidInput(absl::StrCat(path, " belongs to user ", found.st_uid, ", not to user ",
                                     ::geteuid(), ", who runs this"));
  }
  if ((found.st_mode & 077) == 0) return absl::OkStatus();
  return InvalidInput(absl::StrFormat("%s is open to other users (mode %04o): chmod %s %s", path,
                                      found.st_mode & 07777, mode, path));
}

}  // namespace

absl::Status check_private_folder(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return cannot_open(path);
  if (!S_ISDIR(found.st_mode)) return InvalidInput(absl::StrCat(path, " is not a folder"));
  return check_private(found, path, "700");
}

absl::StatusOr<std::string> read_private_file(const std::string& path, size_t bytes_max) {
  // Not waiting: a pipe of that name would hold us for ever.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return cannot_open(path);
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return cannot_open(path);
  if (!S_ISREG(found.st_mode)) return InvalidInput(absl::StrCat(path, " is not a file"));
  RETURN_IF_ERROR(check_private(found, path, "600"));
  std::string contents(bytes_max + 1, '\0');
  size_t size = 0;
  while (size < contents.size()) {
    const ssize_t got = ::read(file.get(), contents.data() + size, contents.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_open(path);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > bytes_max)
    return InvalidInput(absl::StrCat(path, " is larger than ", bytes_max, " bytes"));
  contents.resize(size);
  return contents;
}

absl::Status write_private_file(const std::string& path, const std::string& contents) {
  const FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return cannot_open(path);
  for (size_t written = 0; written < contents.size();) {
    const ssize_t put = ::write(file.get(), contents.data() + written, contents.size() - written);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return cannot_open(path);
    written += static_cast<size_t>(put);
  }
  // The creation mask may have taken more than others' rights away.
  if (::fchmod(file.get(), 0600) != 0 || ::fsync(file.get()) != 0) return cannot_open(path);
  return absl::OkStatus();
}

}  // namespace evermoe
