// Whether somebody waits for another rank.
#include "comm/transport/watched_transport.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace evermoe
