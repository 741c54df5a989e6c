// Greetings with proofs: what a stranger can say is not believed.
#include "comm/transport/proven_greeting.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "comm/transport/greeting_fuzz_entry.h"

namespace evermoe {
namespace {

const JobSecret kSecret = JobSecret::random();
const Greeting kProver{Rank(3), 8, View(70'000), process_number("ucx:machine:detail")};
const GreetingReceiver kTo{Rank(2), 77, 1};

ProvenGreeting greeting() { return {kProver, new_nonce()}; }

// Computed by Python's hmac.
TEST(JobSecretTest, HashesAreHmacSha256) {
  const JobSecret secret(std::string(32, '\x0b'));
  const std::string text = "Hi There";
  const JobSecret::Mac mac = secret.mac(std::as_bytes(std::span(text)));
  std::string hex;
  for (const std::byte byte : mac) {
    hex += "0123456789abcdef"[std::to_integer<int>(byte) >> 4];
    hex += "0123456789abcdef"[std::to_integer<int>(byte) & 15];
  }
  EXPECT_EQ(hex, "198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7");
  EXPECT_TRUE(secret.is_mac(std::as_bytes(std::span(text)), mac));
  EXPECT_FALSE(secret.is_mac(std::as_bytes(std::span(text)), std::span(mac).first(31)));
}

TEST(ProvenGreetingTest, SurvivesItsEncoding) {
  const ProvenGreeting said = greeting();
  const auto heard =
      decode_proven_greeting(kSecret, encode_proven_greeting(kSecret, said, kTo), kTo);
  ASSERT_TRUE(heard.ok()) << heard.status();
  EXPECT_EQ(*heard, said);
}

TEST(ProvenGreetingTest, EveryBitCounts) {
  const ProvenGreetingBytes good = encode_proven_greeting(kSecret, greeting(), kTo);
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    ProvenGreetingBytes bytes = good;
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_TRUE(absl::IsPermissionDenied(decode_proven_greeting(kSecret, bytes, kTo).status()));
  }
}

TEST(ProvenGreetingTest, OfAnotherSecretOrToSomebodyElseIsRefused) {
  const ProvenGreetingBytes good = encode_proven_greeting(kSecret, greeting(), kTo);
  const auto refused = [&](const JobSecret& secret, const GreetingReceiver& to) {
    return absl::IsPermissionDenied(decode_proven_greeting(secret, good, to).status());
  };
  EXPECT_TRUE(refused(JobSecret::random(), kTo));
  EXPECT_TRUE(refused(kSecret, {Rank(1), 77, 1}));
  EXPECT_TRUE(refused(kSecret, {Rank(2), 78, 1}));
  EXPECT_TRUE(refused(kSecret, {Rank(2), 77, 2})) << "a hello is no goodbye";
  EXPECT_FALSE(refused(kSecret, kTo));
}

TEST(ProvenGreetingTest, PassesAreOfOneConnectionAndOneDirection) {
  const ProvenGreeting one = greeting(), other{{Rank(2), 8, View(70'000), 77}, new_nonce()};
  const Pass pass = pass_between(kSecret, one, other);
  EXPECT_EQ(pass.token, pass_between(kSecret, one, other).token) << "both ends have the same";
  EXPECT_NE(pass.token, pass_between(kSecret, other, one).token);
  EXPECT_NE(pass.token, pass_between(JobSecret::random(), one, other).token);
  ProvenGreeting again = other;
  again.nonce = new_nonce();
  EXPECT_NE(pass.token, pass_between(kSecret, one, again).token);
  EXPECT_NE(pass.tag, pass_between(kSecret, one, again).tag);
}

TEST(ProvenGreetingTest, AMillionArbitraryBytesBelieveNothing) {
  std::mt19937 random(7);
  std::vector<uint8_t> bytes(100);
  for (int round = 0; round < 10'000; ++round) {
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    fuzz_greetings(bytes.data(), round % 2 == 0 ? bytes.size() : random() % bytes.size());
  }
}

}  // namespace
}  // namespace evermoe
