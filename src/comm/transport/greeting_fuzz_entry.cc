#include "comm/transport/greeting_fuzz_entry.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "comm/transport/frame.h"
#include "comm/transport/proven_greeting.h"

namespace evermoe {
namespace {

void expect_round_trip(std::span<const std::byte> bytes) {
  const auto header = decode_frame(bytes);
  if (header.ok()) CHECK(std::ranges::equal(encode_frame(*header), bytes));
  const auto greeting = decode_greeting(bytes);
  if (greeting.ok()) CHECK(std::ranges::equal(encode_greeting(*greeting), bytes));
}

void expect_proof(const ProvenGreetingBytes& bytes, const Greeting& said) {
  static const JobSecret kSecret(std::string(JobSecret::kBytes, 's'));
  constexpr GreetingReceiver kTo{Rank(1), 2, 3};
  CHECK(!decode_proven_greeting(kSecret, bytes, kTo).ok()) << "arbitrary bytes prove nothing";
  ProvenGreeting greeting{said, {}};
  std::memcpy(greeting.nonce.data(), bytes.data(), greeting.nonce.size());
  ProvenGreetingBytes proven = encode_proven_greeting(kSecret, greeting, kTo);
  const auto decoded = decode_proven_greeting(kSecret, proven, kTo);
  if (decoded.ok()) CHECK(*decoded == greeting);
  const size_t bit = std::to_integer<size_t>(bytes[0]) << 8 | std::to_integer<size_t>(bytes[1]);
  proven[bit / 8 % proven.size()] ^= std::byte(1 << bit % 8);
  CHECK(!decode_proven_greeting(kSecret, proven, kTo).ok()) << "bit " << bit << " does not count";
}

}  // namespace

void fuzz_greetings(const uint8_t* data, size_t size) {
  ProvenGreetingBytes all{};
  std::memcpy(all.data(), data, std::min(size, all.size()));
  const auto bytes = std::span(all).first<kFrameHeaderBytes>();
  expect_round_trip(bytes);
  FrameHeader header;
  std::memcpy(&header.kind, bytes.data(), sizeof(header.kind));
  std::memcpy(&header.tag.group, bytes.data() + 2, sizeof(header.tag.group));
  std::memcpy(&header.tag.view.value, bytes.data() + 4, sizeof(header.tag.view.value));
  std::memcpy(&header.tag.purpose, bytes.data() + 8, sizeof(header.tag.purpose));
  std::memcpy(&header.length, bytes.data() + 12, sizeof(header.length));
  expect_round_trip(encode_frame(header));
  Greeting greeting;
  std::memcpy(&greeting.rank.value, bytes.data(), sizeof(greeting.rank.value));
  std::memcpy(&greeting.world_size, bytes.data() + 4, sizeof(greeting.world_size));
  std::memcpy(&greeting.since.value, bytes.data() + 8, sizeof(greeting.since.value));
  std::memcpy(&greeting.process, bytes.data() + 12, sizeof(greeting.process));
  std::memcpy(&greeting.kind, bytes.data() + 20, sizeof(greeting.kind));
  expect_round_trip(encode_greeting(greeting));
  expect_proof(all, greeting);
}

}  // namespace evermoe
