// Wakes one thread of this process from another, through the transport: the waiting thread goes on
// driving its progress, and simulated time stays in charge.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/transport/transport.h"

namespace evermoe {

inline constexpr uint16_t kSignalGroup = 4093;

class Signal {
 public:
  // `number` tells the signals of one transport apart. The transport must outlive it.
  Signal(Transport& transport, uint32_t number) : transport_(transport), number_(number) {}

  // Any thread; not while holding a mutex that another thread of the process may want. Raising a
  // raised signal does nothing.
  void raise() {
    if (raised_.exchange(true)) return;
    (void)transport_.wait(transport_.start_send(transport_.rank(), tag(), {}),
                          absl::ZeroDuration());
  }

  // Waits until the signal is raised, and lowers it: the caller then looks whether what it waits
  // for has come. One thread at a time. Timeout, or Cancelled when the transport is closed.
  absl::Status wait(absl::Duration timeout) {
    const absl::Status status =
        transport_.wait(transport_.start_receive(transport_.rank(), tag(), {}), timeout);
    if (status.ok()) raised_ = false;
    return status;
  }

 private:
  // Views are revoked up to some number; this one never is.
  Tag tag() const { return {View(~uint32_t{0}), kSignalGroup, number_}; }

  Transport& transport_;
  const uint32_t number_;
  std::atomic<bool> raised_ = false;
};

}  // namespace evermoe
