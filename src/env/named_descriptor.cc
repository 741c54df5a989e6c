#include "env/named_descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

// What people can do about errors whose names alone do not say it; empty for others.
const char* hint_for(int error) {
  switch (error) {
    case ENOSPC: return " (no bytes or no inodes are left: df, df -i)";
    case EDQUOT: return " (a user, group or project has used up its share: quota -s)";
    case ESTALE:
      return " (the file server does not know this file or folder any more: it was replaced there,"
             " or exported anew; if this stays, mount the file system again)";
    default: return "";
  }
}

}  // namespace

absl::Status errno_status(int error, const std::string& path, const char* doing) {
  std::string message =
      absl::StrCat(path, ": cannot ", doing, ": ", std::strerror(error), hint_for(error));
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
