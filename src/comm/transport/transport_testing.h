// For tests: short words for what a rank does with its transport.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "comm/transport/deadline.h"
#include "comm/transport/transport.h"

namespace evermoe {

inline constexpr absl::Duration kPatience = absl::Seconds(30);

// Looks once per millisecond whether the condition holds; false after kPatience. Without looking
// all the time: the processes that have to make it true need the cores.
inline bool eventually(const std::function<bool()>& condition) {
  const Deadline deadline(kPatience);
  while (!condition()) {
    if (deadline.passed()) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

inline Tag tag(uint32_t purpose, uint32_t view = 1) { return {View(view), 0, purpose}; }

// Words of a simple sequence, which also slow (instrumented) builds make fast.
inline std::vector<std::byte> bytes_of(size_t size, int seed) {
  uint64_t state = static_cast<uint64_t>(seed) + 1;
  std::vector<uint64_t> words(size / sizeof(uint64_t) + 1);
  for (uint64_t& word : words) word = state = state * 6364136223846793005 + 1442695040888963407;
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), words.data(), size);
  return bytes;
}

inline absl::Status send(Transport& transport, int to, Tag tag, std::span<const std::byte> bytes,
                         absl::Duration timeout = kPatience) {
  return transport.wait(transport.start_send(Rank(to), tag, bytes), timeout);
}

inline absl::Status receive(Transport& transport, int from, Tag tag, std::span<std::byte> into,
                            absl::Duration timeout = kPatience) {
  return transport.wait(transport.start_receive(Rank(from), tag, into), timeout);
}

// Whether the next message of this tag is bytes_of(size, seed).
inline bool gets(Transport& transport, int from, Tag tag, size_t size, int seed) {
  std::vector<std::byte> into(size);
  return receive(transport, from, tag, into).ok() && into == bytes_of(size, seed);
}

// Returns when every rank has called this and is connected with every other one.
inline void connect_with_all(Transport& transport) {
  const Tag hello{View(1), 4000, 0};
  std::vector<std::unique_ptr<TransportOperation>> hellos;
  for (int i = 0; i < transport.size(); ++i) {
    hellos.push_back(transport.start_send(Rank(i), hello, {}));
    hellos.push_back(transport.start_receive(Rank(i), hello, {}));
  }
  for (auto& operation : hellos) CHECK_OK(transport.wait(std::move(operation), kPatience));
}

inline Tag service_tag(uint32_t purpose, uint32_t view = 1) {
  return {View(view), kServiceGroup, purpose};
}

inline bool is_service_message(const absl::StatusOr<ServiceMessage>& service_message, int from,
                               Tag tag, size_t size, int seed) {
  if (!service_message.ok() || service_message->from != Rank(from) || service_message->tag != tag ||
      service_message->size != size)
    return false;
  return size == 0 ||
         std::memcmp(bytes_of(size, seed).data(), service_message->bytes.get(), size) == 0;
}

}  // namespace evermoe
