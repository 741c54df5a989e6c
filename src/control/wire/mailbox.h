// Where other threads leave what a loop that polls descriptors has to do.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <deque>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"

namespace evermoe {

template <typename T>
class Mailbox {
 public:
  // More than `size_max` waiting is a bug: somebody does not take what he gets.
  explicit Mailbox(size_t size_max)
      : size_max_(size_max), fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    CHECK(fd_ >= 0) << "no descriptor is left";
  }
  ~Mailbox() { ::close(fd_); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Readable while something waits.
  int fd() const { return fd_; }

  // Any thread.
  void put(T item) {
    {
      const MutexLock lock(mutex_);
      CHECK(items_.size() < size_max_)
          << "nobody reads the mailbox: " << items_.size() << " messages wait";
      items_.push_back(std::move(item));
    }
    (void)!::eventfd_write(fd_, 1);
  }
  std::deque<T> take() {
    eventfd_t count = 0;
    (void)!::eventfd_read(fd_, &count);
    const MutexLock lock(mutex_);
    return std::exchange(items_, {});
  }

 private:
  const size_t size_max_;
  const int fd_;
  Mutex mutex_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
