// Whether somebody waits for another rank, and what was sent to whom.
#include "comm/transport/watched_transport.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <thread>

#include "comm/transport/rank_threads_testing.h"
#include "comm/transport/transport_testing.h"

namespace evermoe {
namespace {

TEST(WatchedTransportTest, OnlyWaitsOfItsGroupsShow) {
  run_ranks(TransportKind::kUnix, 2, [](Transport& transport) {
    const Tag outside{View(1), 0, 1}, inside{View(1), 8, 1}, asked{View(1), 0, 2};
    if (transport.rank() == Rank(0)) {
      for (const Tag& next : {outside, inside}) {
        EXPECT_TRUE(receive(transport, 1, asked, {}).ok());
        EXPECT_TRUE(send(transport, 1, next, {}).ok());
      }
      return;
    }
    WatchedTransport watched(transport, {8, 9}, real_clock());
    std::thread waiting([&] { EXPECT_TRUE(receive(watched, 0, outside, {}).ok()); });
    for (int look = 0; look < 50; ++look, ::poll(nullptr, 0, 1))
      EXPECT_FALSE(watched.is_waited_in());
    EXPECT_TRUE(send(transport, 0, asked, {}).ok());
    waiting.join();
    EXPECT_EQ(watched.time_waited(), absl::ZeroDuration());
    EXPECT_EQ(watched.connections_opened(), 1);
    waiting = std::thread([&] { EXPECT_TRUE(receive(watched, 0, inside, {}).ok()); });
    EXPECT_TRUE(eventually([&] { return watched.is_waited_in(); }));
    EXPECT_TRUE(send(watched, 0, asked, {}).ok());
    waiting.join();
    EXPECT_FALSE(watched.is_waited_in());
    EXPECT_GT(watched.time_waited(), absl::ZeroDuration());
  });
}

TEST(WatchedTransportTest, AWaitThatEndsWithAnErrorIsOver) {
  run_ranks(TransportKind::kInProcess, 1, [](Transport& transport) {
    WatchedTransport watched(transport, {8, 9}, real_clock());
    std::byte byte;
    EXPECT_FALSE(receive(watched, 0, Tag{View(1), 8, 1}, {&byte, 1}, absl::Milliseconds(1)).ok());
    EXPECT_FALSE(watched.is_waited_in());
    EXPECT_GT(watched.time_waited(), absl::ZeroDuration());
  });
}

TEST(WatchedTransportTest, WhatIsSentToOthersCounts) {
  run_ranks(TransportKind::kInProcess, 2, [](Transport& transport) {
    const std::array<std::byte, 5> bytes{};
    if (transport.rank() == Rank(1)) {
      std::array<std::byte, 5> into{};
      for (const uint16_t group : {8, 0})
        EXPECT_TRUE(receive(transport, 0, Tag{View(1), group, 1}, into).ok());
      return;
    }
    const auto sent = std::make_shared<SentTraffic>();
    WatchedTransport watched(transport, {8, 9}, real_clock(), sent);
    for (const uint16_t group : {8, 0})
      EXPECT_TRUE(send(watched, 1, Tag{View(1), group, 1}, bytes).ok());
    EXPECT_TRUE(send(watched, 0, Tag{View(1), 8, 1}, bytes).ok()) << "to itself";
    const std::map<Rank, SentTraffic::Sent> expected{{Rank(1), {2, 10}}};
    EXPECT_EQ(sent->so_far(), expected);
  });
}

}  // namespace
}  // namespace evermoe
