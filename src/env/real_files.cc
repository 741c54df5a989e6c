#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "env/files.h"

namespace evermoe {
namespace {

// Sorted by what the caller can do (base/error.h).
absl::Status from_errno(int error, const std::string& path, const char* doing) {
  std::string message = absl::StrCat(path, ": cannot ", doing, ": ", std::strerror(error));
  switch (error) {
    case ENOENT: return NotFound(std::move(message));
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case EFBIG: return NoCapacity(std::move(message));
    case EACCES:
    case EPERM:
    case EROFS:
      // Not InvalidInput: a disk that becomes read-only while a job runs is nobody's wrong input.
      // Who asks for a place that a user named says so (JobFolder).
      return absl::PermissionDeniedError(message);
    case ENOSYS:
    case EOPNOTSUPP: return Unsupported(std::move(message));
    default: return Internal(std::move(message));
  }
}

// Owns a descriptor and its path.
class Descriptor {
 public:
  Descriptor(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  const std::string& path() const { return path_; }
  absl::Status failed(const char* doing) const { return from_errno(errno, path_, doing); }

 private:
  int fd_;
  std::string path_;
};

int open_retrying(const std::string& path, int flags) {
  int fd;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

class RealWritableFile : public WritableFile {
 public:
  // `direct_fd` writes past the page cache and is -1 where the file system cannot.
  RealWritableFile(int fd, int direct_fd, const std::string& path)
      : file_(fd, path), direct_(direct_fd, path), direct_works_(direct_fd >= 0) {}

  absl::Status append(std::span<const std::byte> bytes) override {
    if (!write_all(file_.get(), end_, bytes)) return file_.failed("write");
    end_ += static_cast<int64_t>(bytes.size());
    return absl::OkStatus();
  }

  absl::Status write_at(int64_t offset, std::span<const std::byte> bytes) override {
    const uint64_t together =
        static_cast<uint64_t>(offset) | bytes.size() | reinterpret_cast<uintptr_t>(bytes.data());
    if (direct_works_ && together % kDirectAlignment == 0) {
      if (write_all(direct_.get(), offset, bytes)) return absl::OkStatus();
      if (errno != EINVAL) return file_.failed("write");
      direct_works_ =
          false;  // This disk wants more than our alignment; ordinary writes always work.
    }
    if (!write_all(file_.get(), offset, bytes)) return file_.failed("write");
    return absl::OkStatus();
  }

  absl::Status truncate(int64_t size) override {
    return ::ftruncate(file_.get(), size) == 0 ? absl::OkStatus() : file_.failed("truncate");
  }

  absl::Status sync() override {
    return ::fsync(file_.get()) == 0 ? absl::OkStatus() : file_.failed("sync");
  }

  absl::Status close() override {
    if (direct_.get() >= 0) ::close(direct_.release());
    // Linux frees the descriptor even when close() reports an error.
    return ::close(file_.release()) == 0 ? absl::OkStatus() : file_.failed("close");
  }

 private:
  // False with errno set where the system refuses.
  static bool write_all(int fd, int64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      bytes = bytes.subspan(static_cast<size_t>(written));
      offset += written;
    }
    return true;
  }

  Descriptor file_;
  Descriptor direct_;
  std::atomic<bool> direct_works_;
  int64_t end_ = 0;  // where append() goes on
};

class RealReadableFile : public ReadableFile {
 public:
  RealReadableFile(int fd, const std::string& path, int64_t size) : file_(fd, path), size_(size) {}

  int64_t size() const override { return size_; }

  absl::Status read_at(int64_t offset, std::span<std::byte> into) override {
    while (!into.empty()) {
      const ssize_t got = ::pread(file_.get(), into.data(), into.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return file_.failed("read");
      if (got == 0) {
        return Corrupt(absl::StrCat(file_.path(), ": ends at byte ", offset, ", ", into.size(),
                                    " more were expected"));
      }
      into = into.subspan(static_cast<size_t>(got));
      offset += got;
    }
    return absl::OkStatus();
  }

  void prefetch(int64_t offset, int64_t size) override {
    ::posix_fadvise(file_.get(), offset, size, POSIX_FADV_WILLNEED);
  }

 private:
  Descriptor file_;
  int64_t size_;
};

class RealMappedFile : public MappedFile {
 public:
  explicit RealMappedFile(std::span<std::byte> bytes) : bytes_(bytes) {}
  ~RealMappedFile() override {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  }
  std::span<const std::byte> bytes() const override { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

class RealFiles : public Files {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> create(const std::string& path,
                                                       const CreateOptions& options) override {
    Descriptor file(open_retrying(path, O_WRONLY | O_CREAT | O_TRUNC), path);
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
    Descriptor file(open_retrying(path, O_RDONLY), path);
    if (file.get() < 0) return file.failed("open");
    ASSIGN_OR_RETURN(const int64_t size, regular_size(file));
    return std::make_unique<RealReadableFile>(file.release(), path, size);
  }

  absl::StatusOr<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    const Descriptor file(open_retrying(path, O_RDONLY), path);
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
    if (::stat(path.c_str(), &info) != 0) return from_errno(errno, path, "read the size");
    return static_cast<int64_t>(info.st_size);
  }

  absl::StatusOr<FileIdentity> identity(const std::string& path) override {
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) return from_errno(errno, path, "read the times");
    const auto nanoseconds = [](const timespec& time) {
      return time.tv_sec * 1'000'000'000 + time.tv_nsec;
    };
    return FileIdentity{info.st_ino, info.st_size, nanoseconds(info.st_mtim),
                        nanoseconds(info.st_ctim)};
  }

  absl::StatusOr<int64_t> free_bytes(const std::string& path) override {
    struct statvfs info;
    if (::statvfs(path.c_str(), &info) != 0) return from_errno(errno, path, "read the free space");
    return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
  }

  absl::StatusOr<std::vector<std::string>> list(const std::string& directory) override {
    DIR* stream = ::opendir(directory.c_str());
    if (stream == nullptr) return from_errno(errno, directory, "list");
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(stream)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    const int error = errno;
    ::closedir(stream);
    if (error != 0) return from_errno(error, directory, "list");
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status create_directories(const std::string& path) override {
    if (::mkdir(path.c_str(), 0755) == 0 || (errno == EEXIST && is_directory(path))) {
      return absl::OkStatus();
    }
    const std::string parent = parent_directory(path);
    if (errno != ENOENT || parent == path || parent == ".") {
      return from_errno(errno, path, "create the folder");
    }
    RETURN_IF_ERROR(create_directories(parent));
    // Somebody else may have made it meanwhile.
    if (::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return absl::OkStatus();
    return from_errno(errno, path, "create the folder");
  }

  absl::Status sync_directory(const std::string& path) override {
    const Descriptor directory(open_retrying(path, O_RDONLY | O_DIRECTORY), path);
    if (directory.get() < 0) return directory.failed("open the folder");
    // Some network file systems refuse to sync a folder because their renames are synchronous.
    if (::fsync(directory.get()) == 0 || errno == EINVAL) return absl::OkStatus();
    return directory.failed("sync the folder");
  }

  absl::Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return from_errno(errno, from, absl::StrCat("rename to ", to).c_str());
  }

  absl::Status exchange(const std::string& a, const std::string& b) override {
    if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) {
      return absl::OkStatus();
    }
    if (errno == EINVAL) errno = EOPNOTSUPP;  // what a file system without it answers
    return from_errno(errno, a, absl::StrCat("exchange with ", b).c_str());
  }

  absl::Status remove_file(const std::string& path) override {
    return ::unlink(path.c_str()) == 0 ? absl::OkStatus() : from_errno(errno, path, "remove");
  }

  absl::Status remove_directory(const std::string& path) override {
    return ::rmdir(path.c_str()) == 0 ? absl::OkStatus()
                                      : from_errno(errno, path, "remove the folder");
  }

  absl::Status create_symlink(const std::string& target, const std::string& path) override {
    return ::symlink(target.c_str(), path.c_str()) == 0
               ? absl::OkStatus()
               : from_errno(errno, path, "create the link");
  }

  absl::StatusOr<std::string> read_symlink(const std::string& path) override {
    char target[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), target, sizeof(target));
    if (length < 0) return from_errno(errno, path, "read the link");
    return std::string(target, static_cast<size_t>(length));
  }

 private:
  static absl::StatusOr<int64_t> regular_size(const Descriptor& file) {
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
