// Service messages of a view that this member is about to open: members that have opened it already
// send them, and they wait here.
//
// They are outside protection.memory_budget, so there is little room: what finds none is dropped.
// Nothing is lost by that, because whoever needs an answer asks again, as with a message that gets
// lost with a connection. The first one always finds room, whatever its size.
//
// Not synchronised.
#pragma once

#include <cstddef>
#include <deque>

#include "comm/transport/transport.h"

namespace evermoe {

class NextViewMessages {
 public:
  static constexpr size_t kCountMax = size_t{1} << 16;
  // Of all senders together, with what a message takes beside its bytes.
  static constexpr size_t kBytesMax = size_t{64} << 20;
  static constexpr size_t kBytesOfEach = sizeof(ServiceMessage);

  // False if it has been dropped.
  bool add(ServiceMessage message);
  // Those that waited, in the order in which they came.
  std::deque<ServiceMessage> take();

  size_t bytes() const { return bytes_; }

 private:
  std::deque<ServiceMessage> messages_;
  size_t bytes_ = 0;
};

}  // namespace evermoe
