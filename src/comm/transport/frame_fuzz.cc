// libFuzzer: whatever decode_frame() and decode_greeting() accept, their encoders write again in
// the same bytes. The input is tried as it is, and as the fields of a header whose checksum is
// right.
#include "comm/transport/frame.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace {

void expect_round_trip(std::span<const std::byte> bytes) {
  const auto header = evermoe::decode_frame(bytes);
  if (header.ok()) CHECK(std::ranges::equal(evermoe::encode_frame(*header), bytes));
  const auto greeting = evermoe::decode_greeting(bytes);
  if (greeting.ok()) CHECK(std::ranges::equal(evermoe::encode_greeting(*greeting), bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  evermoe::FrameBytes bytes{};
  std::memcpy(bytes.data(), data, std::min(size, bytes.size()));
  expect_round_trip(bytes);
  evermoe::FrameHeader header;
  std::memcpy(&header.kind, bytes.data(), sizeof(header.kind));
  std::memcpy(&header.tag.group, bytes.data() + 2, sizeof(header.tag.group));
  std::memcpy(&header.tag.view.value, bytes.data() + 4, sizeof(header.tag.view.value));
  std::memcpy(&header.tag.purpose, bytes.data() + 8, sizeof(header.tag.purpose));
  std::memcpy(&header.length, bytes.data() + 12, sizeof(header.length));
  expect_round_trip(evermoe::encode_frame(header));
  evermoe::Greeting greeting;
  std::memcpy(&greeting.rank.value, bytes.data(), sizeof(greeting.rank.value));
  std::memcpy(&greeting.world_size, bytes.data() + 4, sizeof(greeting.world_size));
  std::memcpy(&greeting.since.value, bytes.data() + 8, sizeof(greeting.since.value));
  std::memcpy(&greeting.process, bytes.data() + 12, sizeof(greeting.process));
  std::memcpy(&greeting.kind, bytes.data() + 20, sizeof(greeting.kind));
  expect_round_trip(evermoe::encode_greeting(greeting));
  return 0;
}
