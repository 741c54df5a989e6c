// Bytes as protobuf has them, and answers that are none.
#include "control/store/etcd_messages.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

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
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % (i % 2 ? 256 : 32));
    (void)read_lease_answer(bytes);
    (void)read_range_answer(bytes);
    (void)read_create_answer(bytes);
  }
}

}  // namespace
}  // namespace evermoe::etcd
