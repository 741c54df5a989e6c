#include "env/named_descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

absl::Status errno_status(int error, const std::string& path, const char* doing) {
  std::string message = absl::StrCat(path, ": cannot ", doing, ": ", std::strerror(error));
  switch (error) {
    case ENOENT: return NotFound(std::move(message));
    case EEXIST: return absl::AlreadyExistsError(message);
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

NamedDescriptor::~NamedDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status NamedDescriptor::failed(const char* doing) const {
  return errno_status(errno, path_, doing);
}

int open_retrying(const std::string& path, int flags) {
  int fd;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

}  // namespace evermoe
