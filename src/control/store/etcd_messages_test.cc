// Bytes as protobuf has them, and answers that are none.
#include "control/store/etcd_messages.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/store/etcd_messages_fuzz_entry.h"

namespace evermoe::etcd {
namespace {

// protoc --encode=etcdserverpb.LeaseGrantRequest <<< "TTL: 300"
TEST(EtcdMessages, RequestsHaveTheNumbersOfTheApi) {
  EXPECT_EQ(lease_grant_request(300), std::string("\x08\xac\x02", 3));
  EXPECT_EQ(lease_request(-1), "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  EXPECT_EQ(range_request("k"), "\x0a\x01k");
  EXPECT_EQ(create_or_read_request("k", "v", 1),
            std::string("\x0a\x09\x08\x00\x10\x01\x1a\x01k\x28\x00"
                        "\x12\x0a\x12\x08\x0a\x01k\x12\x01v\x18\x01"
                        "\x1a\x05\x0a\x03\x0a\x01k",
                        30));
}

TEST(EtcdMessages, AnswersAreRead) {
  const auto lease = read_lease_answer(std::string("\x0a\x02\x08\x01\x10\x07\x18\x05", 8));
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ(lease->lease, 7);
  EXPECT_EQ(lease->ttl_seconds, 5);
  EXPECT_FALSE(read_range_answer("")->has_value());
  const std::string pair("\x12\x0a\x0a\x01k\x10\x03\x2a\x01v\x30\x09", 12);
  EXPECT_EQ((*read_range_answer(pair))->value, "v");
  EXPECT_EQ((*read_range_answer(pair))->lease, 9);
  EXPECT_FALSE(read_create_answer(std::string("\x10\x01", 2))->has_value()) << "it was made";
  const std::string there = std::string("\x1a\x0e\x0a\x0c", 4) + pair;
  EXPECT_EQ((*read_create_answer(there))->lease, 9);
}

TEST(EtcdMessages, WhatIsNoneIsRefused) {
  EXPECT_TRUE(absl::IsDataLoss(read_lease_answer("\x12").status()));
  EXPECT_TRUE(absl::IsDataLoss(read_range_answer("\x12\x05k").status()));
  EXPECT_TRUE(absl::IsDataLoss(read_create_answer("").status()));
  EXPECT_TRUE(absl::IsDataLoss(read_lease_answer("\x0b").status())) << "a group";
}

TEST(EtcdMessages, AFieldOfAnotherTypeIsSkipped) {
  EXPECT_FALSE(read_range_answer(std::string("\x10\x01", 2))->has_value()) << "no pair, a number";
  const auto lease = read_lease_answer(std::string("\x10\x07\x12\x00", 4));
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ(lease->lease, 7);
}

TEST(EtcdMessages, MutatedAnswersNeverBreakAPromise) {
  const std::string pair("\x12\x0a\x0a\x01k\x10\x03\x2a\x01v\x30\x09", 12);
  const std::vector<std::string> answers = {std::string("\x0a\x02\x08\x01\x10\x07\x18\x05", 8),
                                            pair, std::string("\x10\x01", 2),
                                            std::string("\x1a\x0e\x0a\x0c", 4) + pair, ""};
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string bytes = answers[seed % answers.size()];
    for (uint32_t n = random() % 5; n > 0; --n) {
      if (bytes.empty()) bytes = "\x12";
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
        case 2: bytes.erase(at, random() % 4); break;
        case 3: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 8)); break;
      }
    }
    fuzz_etcd_messages(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
}

}  // namespace
}  // namespace evermoe::etcd
