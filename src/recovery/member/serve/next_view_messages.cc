#include "recovery/member/serve/next_view_messages.h"

#include <utility>

namespace evermoe {

bool NextViewMessages::add(ServiceMessage message) {
  const size_t bytes = message.size + kBytesOfEach;
  if (!messages_.empty() && (messages_.size() >= kCountMax || bytes_ + bytes > kBytesMax))
    return false;
  bytes_ += bytes;
  messages_.push_back(std::move(message));
  return true;
}

std::deque<ServiceMessage> NextViewMessages::take() {
  bytes_ = 0;
  return std::exchange(messages_, {});
}

}  // namespace evermoe
