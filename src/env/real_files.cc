#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "env/files.h"
#include "env/named_descriptor.h"
#include "env/real_open_files.h"

namespace evermoe {
namespace {

class RealFiles : public Files {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> create(const std::string& path,
                                                       const CreateOptions& options) override {
    NamedDescriptor file(open_retrying(path, O_WRONLY | O_CREAT | O_TRUNC), path);
    if (file.get() < 0) return file.failed("create");
    if (options.reserve_bytes > 0) {
      const int reserved = ::fallocate(file.get(), 0, 0, options.reserve_bytes);
      // Reserving is an optimisation unless it says that the disk is full.
      if (reserved != 0 && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR) {
        return file.failed("reserve space");
      }
    }
    const int direct = options.direct ? open_retrying(path, O_WRONLY | O_DIRECT) : -1;
    return std::make_unique<RealWritableFile>(file.release(), direct, path);
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    NamedDescriptor file(open_retrying(path, O_RDONLY), path);
    if (file.get() < 0) return file.failed("open");
    ASSIGN_OR_RETURN(const int64_t size, regular_size(file));
    return std::make_unique<RealReadableFile>(file.release(), path, size);
  }

  absl::StatusOr<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    const NamedDescriptor file(open_retrying(path, O_RDONLY), path);
    if (file.get() < 0) return file.failed("open");
    ASSIGN_OR_RETURN(const int64_t size, regular_size(file));
    if (size == 0) return std::make_unique<RealMappedFile>(std::span<std::byte>());
    const size_t length = static_cast<size_t>(size);
    void* memory = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) return file.failed("map");
    return std::make_unique<RealMappedFile>(std::span(static_cast<std::byte*>(memory), length));
  }

  bool exists(const std::string& path) override {
    struct stat info;
    return ::stat(path.c_str(), &info) == 0;
  }

  bool is_directory(const std::string& path) override {
    struct stat info;
    return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }

  bool is_symlink(const std::string& path) override {
    struct stat info;
    return ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
  }

  absl::StatusOr<int64_t> file_size(const std::string& path) override {
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) return errno_status(errno, path, "read the size");
    return static_cast<int64_t>(info.st_size);
  }

  absl::StatusOr<FileIdentity> identity(const std::string& path) override {
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) return errno_status(errno, path, "read the times");
    const auto nanoseconds = [](const timespec& time) {
      return time.tv_sec * 1'000'000'000 + time.tv_nsec;
    };
    return FileIdentity{info.st_ino, info.st_size, nanoseconds(info.st_mtim),
                        nanoseconds(info.st_ctim)};
  }

  absl::StatusOr<int64_t> free_bytes(const std::string& path) override {
    struct statvfs info;
    if (::statvfs(path.c_str(), &info) != 0)
      return errno_status(errno, path, "read the free space");
    return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
  }

  absl::StatusOr<std::vector<std::string>> list(const std::string& directory) override {
    DIR* stream = ::opendir(directory.c_str());
    if (stream == nullptr) return errno_status(errno, directory, "list");
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(stream)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    const int error = errno;
    ::closedir(stream);
    if (error != 0) return errno_status(error, directory, "list");
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status create_directories(const std::string& path) override {
    if (::mkdir(path.c_str(), 0755) == 0 || (errno == EEXIST && is_directory(path))) {
      return absl::OkStatus();
    }
    const std::string parent = parent_directory(path);
    if (errno != ENOENT || parent == path || parent == ".") {
      return errno_status(errno, path, "create the folder");
    }
    RETURN_IF_ERROR(create_directories(parent));
    // Somebody else may have made it meanwhile.
    if (::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return absl::OkStatus();
    return errno_status(errno, path, "create the folder");
  }

  absl::Status sync_directory(const std::string& path) override {
    const NamedDescriptor directory(open_retrying(path, O_RDONLY | O_DIRECTORY), path);
    if (directory.get() < 0) return directory.failed("open the folder");
    // Some network file systems refuse to sync a folder because their renames are synchronous.
    if (::fsync(directory.get()) == 0 || errno == EINVAL) return absl::OkStatus();
    return directory.failed("sync the folder");
  }

  absl::Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return errno_status(errno, from, absl::StrCat("rename to ", to).c_str());
  }

  absl::Status exchange(const std::string& a, const std::string& b) override {
    if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) {
      return absl::OkStatus();
    }
    if (errno == EINVAL) errno = EOPNOTSUPP;  // what a file system without it answers
    return errno_status(errno, a, absl::StrCat("exchange with ", b).c_str());
  }

  absl::Status remove_file(const std::string& path) override {
    return ::unlink(path.c_str()) == 0 ? absl::OkStatus() : errno_status(errno, path, "remove");
  }

  absl::Status remove_directory(const std::string& path) override {
    return ::rmdir(path.c_str()) == 0 ? absl::OkStatus()
                                      : errno_status(errno, path, "remove the folder");
  }

  absl::Status create_symlink(const std::string& target, const std::string& path) override {
    return ::symlink(target.c_str(), path.c_str()) == 0
               ? absl::OkStatus()
               : errno_status(errno, path, "create the link");
  }

  absl::StatusOr<std::string> read_symlink(const std::string& path) override {
    char target[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), target, sizeof(target));
    if (length < 0) return errno_status(errno, path, "read the link");
    return std::string(target, static_cast<size_t>(length));
  }

 private:
  static absl::StatusOr<int64_t> regular_size(const NamedDescriptor& file) {
    struct stat info;
    if (::fstat(file.get(), &info) != 0) return file.failed("read the size");
    if (!S_ISREG(info.st_mode)) return Internal(absl::StrCat(file.path(), ": is not a file"));
    return static_cast<int64_t>(info.st_size);
  }
};

}  // namespace

Files& real_files() {
  static RealFiles& files = *new RealFiles;  // never destroyed: threads may outlive main()
  return files;
}

}  // namespace evermoe
