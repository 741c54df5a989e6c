#include "control/folder/output_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "env/clock.h"

namespace evermoe {
namespace {

// How often a lock whose owner is dead is tried again.
constexpr absl::Duration kRetryPeriod = absl::Milliseconds(20);

// The process that locked the file last, 0 if it says none.
pid_t owner(int fd) {
  char text[32] = {};
  const ssize_t size = ::pread(fd, text, sizeof(text) - 1, 0);
  int pid = 0;
  if (size <= 0 || !absl::SimpleAtoi(std::string(text, static_cast<size_t>(size)), &pid)) return 0;
  return pid;
}

// Of network file systems.
bool has_no_locks(int error) {
  return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

bool lives(pid_t pid) { return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM); }

}  // namespace

absl::StatusOr<std::unique_ptr<OutputLock>> OutputLock::acquire(const std::string& path,
                                                                absl::Duration patience,
                                                                Kind kind) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Internal(absl::StrCat(path, ": ", std::strerror(errno)));
  auto lock = std::unique_ptr<OutputLock>(new OutputLock(fd));
  const absl::Duration deadline = real_clock().now() + patience;
  const int wanted = kind == Kind::kAlone ? LOCK_EX : LOCK_SH;
  while (::flock(fd, wanted | LOCK_NB) != 0) {
    if (has_no_locks(errno)) break;
    if (errno != EWOULDBLOCK && errno != EINTR)
      return Internal(absl::StrCat(path, ": flock: ", std::strerror(errno)));
    const pid_t pid = owner(fd);
    if (lives(pid) || real_clock().now() >= deadline) {
      return InvalidInput(absl::StrCat(path, ": another run is using this folder, process ", pid,
                                       "; wait for its end, or choose another --out"));
    }
    real_clock().sleep_until(real_clock().now() + kRetryPeriod);
  }
  const std::string pid = absl::StrCat(::getpid(), "\n");
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, pid.data(), pid.size(), 0) != std::ssize(pid)) {
    return Internal(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  return lock;
}

OutputLock::~OutputLock() { ::close(fd_); }

}  // namespace evermoe
