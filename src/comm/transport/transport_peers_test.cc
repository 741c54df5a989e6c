// Processes that replace each other, as transports of one process; the test ends them without a
// goodbye. Real deaths are in process_test.cc.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "comm/cast_testing.h"
#include "comm/transport/deadline.h"

namespace evermoe {
namespace {

ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

class PeersTest : public testing::TestWithParam<TransportKind> {
 protected:
  static Cast cast_of(int size, uint32_t since = 1) {
    Cast cast(GetParam(), size);
    for (int rank = 0; rank < size; ++rank) cast.enter(rank, since);
    cast.tell_all();
    return cast;
  }
  static Cast connected_cast_of(int size) {
    Cast cast = cast_of(size);
    cast.each(connect_with_all);
    return cast;
  }
};

// Whichever of the two asks, and whoever is told of the other first.
TEST_P(PeersTest, AConnectionIsMadeBeforeItIsNeeded) {
  for (const int asks : {0, 1}) {
    for (const Traffic traffic : {Traffic::kMessages, Traffic::kServiceMessages}) {
      Cast cast(GetParam(), 2);
      for (const int rank : {0, 1}) cast.enter(rank, 1);
      cast.tell(asks);
      cast[asks].connect(Rank(1 - asks), traffic);
      EXPECT_FALSE(cast[asks].is_connected(Rank(1 - asks), traffic));
      cast.tell(1 - asks);
      EXPECT_TRUE(eventually([&] {
        return cast[0].is_connected(Rank(1), traffic) && cast[1].is_connected(Rank(0), traffic);
      }));
      EXPECT_EQ(cast[1].connections_opened(), 1);
      expect_traffic(cast, 1);
    }
  }
}

TEST_P(PeersTest, AReplacedRankIsReachedAndTheOthersAreNotTouched) {
  Cast cast = connected_cast_of(3);
  // A message that nobody will have received, and one that waits for the dead.
  ASSERT_TRUE(send(cast[1], 0, tag(7), bytes_of(10, 1)).ok());
  std::byte byte;
  auto waiting = cast[2].start_receive(Rank(1), tag(8), {&byte, 1});
  std::atomic<bool> stop = false;
  std::vector<std::thread> survivors_go_on;
  for (const int survivor : {0, 2}) {
    survivors_go_on.emplace_back([&, survivor] {
      Communicator pair(cast[survivor], {Rank(0), Rank(2)}, {View(1), 99, kPatience});
      for (bool both_stop = false; !both_stop;) {
        std::vector<int64_t> values(10'000, stop ? 1 : 0);
        ASSERT_TRUE(pair.all_reduce<int64_t>(values, ReduceOp::kSum).ok());
        both_stop = values[0] == 2;
      }
    });
  }
  cast.die(1);
  EXPECT_TRUE(accuses(cast[2].wait(std::move(waiting), kPatience), 1));
  EXPECT_TRUE(accuses(receive(cast[0], 1, tag(8), {&byte, 1}), 1));
  for (const int survivor : {0, 2})
    cast[survivor].revoke(GroupRange{0, 9}, View(1), Cancelled("rank 1 died"));
  cast.enter(1, 2);
  cast.tell_all();
  expect_traffic(cast, 2);
  EXPECT_EQ(receive(cast[0], 1, tag(7), {&byte, 1}).message(), "rank 1 died");
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(receive(cast[0], 1, tag(7, 2), {&byte, 1}, absl::Milliseconds(5))));
  stop = true;
  for (std::thread& thread : survivors_go_on) thread.join();
}

TEST_P(PeersTest, EachConnectionIsCountedByItsYoungerEnd) {
  Cast cast = cast_of(4);
  const auto counts = [&] {
    std::vector<int64_t> each;
    for (int rank = 0; rank < cast.size(); ++rank) each.push_back(cast[rank].connections_opened());
    return each;
  };
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(counts(), Counts({0, 0, 0, 0})) << "nobody needs one";
  EXPECT_TRUE(send(cast[2], 0, tag(1), {}).ok());
  EXPECT_TRUE(receive(cast[0], 2, tag(1), {}).ok());
  EXPECT_EQ(counts(), Counts({0, 0, 1, 0}));
  cast.each(connect_with_all);
  EXPECT_EQ(counts(), Counts({0, 1, 2, 3}));
  cast.die(1);
  cast.enter(1, 2);
  cast.tell_all();
  expect_traffic(cast, 2);
  // UCX has connections of their own for service messages.
  const int64_t kinds = GetParam() == TransportKind::kUcx ? 2 : 1;
  EXPECT_EQ(counts(), Counts({0, 3 * kinds, 2 + kinds - 1, 3 + 2 * (kinds - 1)}));
}

TEST_P(PeersTest, TheSameTableAgainChangesNothing) {
  Cast cast = cast_of(3);
  std::byte byte;
  auto waiting = cast[0].start_receive(Rank(1), tag(1), {&byte, 1});
  cast.tell_all();
  EXPECT_TRUE(send(cast[1], 0, tag(1), bytes_of(1, 1)).ok());
  cast.tell_all();
  EXPECT_TRUE(cast[0].wait(std::move(waiting), kPatience).ok());
}

TEST_P(PeersTest, TwoNewcomersAtOnce) {
  Cast cast = cast_of(4);
  expect_traffic(cast, 1);
  cast.die(1);
  cast.die(2);
  for (const int survivor : {0, 3}) cast[survivor].revoke(View(1), Cancelled("two died"));
  cast.enter(2, 2);
  cast.enter(1, 2);
  cast.tell_all();
  expect_traffic(cast, 2);
}

TEST_P(PeersTest, NobodyIsThereBeforeATableAndWhereItIsEmpty) {
  Cast cast(GetParam(), 3);
  std::byte byte;
  cast.enter(0, 0);
  cast.enter(2, 0);
  EXPECT_TRUE(accuses(receive(cast[0], 2, tag(1), {&byte, 1}), 2));
  EXPECT_TRUE(accuses(send(cast[0], 2, service_tag(1), {&byte, 1}), 2));
  cast.tell_all();
  const std::byte sent{1};
  auto sending = cast[0].start_send(Rank(2), tag(1), {&sent, 1});
  EXPECT_TRUE(receive(cast[2], 0, tag(1), {&byte, 1}).ok());
  EXPECT_TRUE(cast[0].wait(std::move(sending), kPatience).ok());
  EXPECT_TRUE(accuses(receive(cast[0], 1, tag(1), {&byte, 1}), 1));
  EXPECT_TRUE(send(cast[0], 0, service_tag(1), {&byte, 1}).ok());
  EXPECT_TRUE(cast[0].receive_service_message(kPatience).ok());
  // Who is no longer named is dropped.
  auto waiting = cast[0].start_receive(Rank(2), tag(3), {&byte, 1});
  cast.table()[2] = {};
  cast.tell(0);
  EXPECT_TRUE(accuses(cast[0].wait(std::move(waiting), kPatience), 2));
}

// Whoever is named first, whoever needs the connection first: older or younger.
TEST_P(PeersTest, OperationsWaitUntilBothHaveNamedEachOther) {
  for (const int first : {0, 1}) {
    const int second = 1 - first;
    Cast cast(GetParam(), 2);
    cast.enter(0, 1);
    cast.enter(1, 1);
    cast.tell(first);
    auto sending = cast[first].start_send(Rank(second), tag(1), {});
    auto receiving = cast[first].start_receive(Rank(second), tag(2), {});
    auto telling = cast[first].start_send(Rank(second), service_tag(3), {});
    EXPECT_TRUE(absl::IsDeadlineExceeded(
        cast[first].receive_service_message(absl::Milliseconds(30)).status()));
    EXPECT_FALSE(cast[first].done(*sending));
    cast.tell(second);
    std::thread other([&] {
      EXPECT_TRUE(receive(cast[second], first, tag(1), {}).ok());
      EXPECT_TRUE(send(cast[second], first, tag(2), {}).ok());
      EXPECT_TRUE(cast[second].receive_service_message(kPatience).ok());
    });
    for (auto* const operation : {&sending, &receiving, &telling})
      EXPECT_TRUE(cast[first].wait(std::move(*operation), kPatience).ok());
    other.join();
  }
}

TEST_P(PeersTest, WhatWaitsForAConnectionIsWithdrawnRevokedAndDropped) {
  Cast cast(GetParam(), 2);
  cast.enter(0, 1);
  cast.enter(1, 1);
  cast.tell(0);
  std::vector<std::byte> large = bytes_of(1 << 20, 1);
  for (int i = 0; i < 2; ++i) {
    const absl::Status silent = send(cast[0], 1, tag(1), large, absl::Milliseconds(5));
    EXPECT_TRUE(absl::IsDeadlineExceeded(silent) && accused_rank(silent) == Rank(1)) << silent;
  }
  auto of_the_view = cast[0].start_send(Rank(1), tag(2), large);
  auto later = cast[0].start_send(Rank(1), tag(3, 2), large);
  cast[0].revoke(View(1), Cancelled("view 1 is over"));
  EXPECT_EQ(cast[0].wait(std::move(of_the_view), kPatience).message(), "view 1 is over");
  EXPECT_FALSE(cast[0].done(*later));
  std::ranges::fill(large, std::byte(1));  // nobody sends what was given back
  cast.tell(1);
  std::thread other([&] {
    std::vector<std::byte> into(large.size());
    EXPECT_TRUE(receive(cast[1], 0, tag(3, 2), into).ok());
    EXPECT_TRUE(absl::IsDeadlineExceeded(receive(cast[1], 0, tag(1), into, absl::Milliseconds(5))));
  });
  EXPECT_TRUE(cast[0].wait(std::move(later), kPatience).ok());
  other.join();
  cast.die(1);
  cast.enter(1, 2);
  cast.tell(0);
  auto dropped = cast[0].start_receive(Rank(1), tag(4, 2), large);
  cast.table()[1] = {};
  cast.tell(0);
  EXPECT_TRUE(accuses(cast[0].wait(std::move(dropped), kPatience), 1));
  auto closed = cast[0].start_receive(Rank(0), tag(4, 2), large);
  cast[0].close();
  EXPECT_TRUE(absl::IsCancelled(cast[0].wait(std::move(closed), kPatience)));
}

TEST_P(PeersTest, ASilentProcessIsATimeoutAndMayStillCome) {
  Cast cast = cast_of(3);
  expect_traffic(cast, 1);
  cast.die(1);
  cast.enter(1, 2);
  for (const int rank : {0, 2}) {
    cast.tell(rank);
    const absl::Status status = receive(cast[rank], 1, tag(1, 2), {}, absl::Milliseconds(20));
    EXPECT_TRUE(absl::IsDeadlineExceeded(status) && accused_rank(status) == Rank(1)) << status;
  }
  cast.tell_all();
  expect_traffic(cast, 2);
}

absl::Duration processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

TEST_P(PeersTest, NobodySpinsWhileAProcessIsSilent) {
  constexpr absl::Duration kWait = absl::Milliseconds(400);
  Cast cast(GetParam(), 2);
  cast.enter(0, 1);
  cast.enter(1, 1);
  for (const int waiting : {0, 1}) {
    cast.tell(waiting);
    const absl::Duration before = processor_time();
    EXPECT_TRUE(absl::IsDeadlineExceeded(receive(cast[waiting], 1 - waiting, tag(1), {}, kWait)));
    // Nor afterwards, while the call is not answered yet.
    EXPECT_TRUE(absl::IsDeadlineExceeded(cast[waiting].receive_service_message(kWait).status()));
    EXPECT_LT(processor_time() - before, kWait / 2);
    cast.enter(waiting, 1);
  }
}

TEST_P(PeersTest, ANewcomerThatDiesBeforeItIsReachedIsAccusedAndTheNextOneSucceeds) {
  Cast cast = cast_of(3);
  expect_traffic(cast, 1);
  for (const uint32_t since : {2u, 3u, 3u}) {
    cast.die(1);
    for (const int survivor : {0, 2})
      cast[survivor].revoke(View(since - 1), Cancelled("rank 1 died"));
    cast.enter(1, since);
    cast.tell(1);
    cast.tell(0);
    // Rank 0 has been in touch with it; rank 2 needs it only when it is dead.
    EXPECT_TRUE(
        absl::IsDeadlineExceeded(receive(cast[0], 1, tag(1, since), {}, absl::Milliseconds(30))));
    cast.die(1);
    cast.tell(2);
    for (const int survivor : {0, 2}) {
      EXPECT_TRUE(accuses(receive(cast[survivor], 1, tag(1, since), {}), 1));
      EXPECT_TRUE(accuses(send(cast[survivor], 1, service_tag(1, since), {}), 1));
    }
  }
  cast.enter(1, 4);
  cast.tell_all();
  expect_traffic(cast, 4);
}

TEST_P(PeersTest, TheDeadAreFoundWhileOperationsWaitForThem) {
  Cast cast = cast_of(3);
  cast.die(1);
  cast.enter(1, 2);
  cast.tell(0);
  cast.tell(2);
  std::vector<absl::Status> results(3);
  std::thread zero([&] { results[0] = receive(cast[0], 1, tag(1, 2), {}); });
  std::thread two([&] { results[2] = send(cast[2], 1, service_tag(1, 2), {}); });
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(cast[1].receive_service_message(absl::Milliseconds(50)).status()));
  const Deadline patience(kPatience);
  cast.die(1);
  zero.join();
  two.join();
  EXPECT_TRUE(accuses(results[0], 1)) << results[0];
  EXPECT_TRUE(accuses(results[2], 1)) << results[2];
  EXPECT_GT(patience.left(), kPatience - absl::Seconds(5));
}

TEST_P(PeersTest, TheGreetingOfADeadProcessIsNotItsSuccessors) {
  Cast cast = cast_of(3);
  expect_traffic(cast, 1);
  cast.die(1);
  cast.enter(1, 2);
  cast.tell(1);
  // Rank 0 has not been told of it yet, but what it sends arrives.
  constexpr absl::Duration kWhile = absl::Milliseconds(60);
  std::byte byte;
  std::thread service_messages([&] { EXPECT_FALSE(cast[0].receive_service_message(kWhile).ok()); });
  std::thread messages([&] { EXPECT_FALSE(receive(cast[0], 2, tag(9), {&byte, 1}, kWhile).ok()); });
  std::thread greets([&] { EXPECT_FALSE(send(cast[1], 0, service_tag(1, 2), {}, kWhile).ok()); });
  EXPECT_TRUE(absl::IsDeadlineExceeded(send(cast[1], 0, tag(1, 2), bytes_of(1, 1), kWhile)));
  for (std::thread* const thread : {&service_messages, &messages, &greets}) thread->join();
  cast.die(1);
  cast.enter(1, 2);
  cast.tell(0);
  EXPECT_TRUE(absl::IsDeadlineExceeded(receive(cast[0], 1, tag(1, 2), {&byte, 1}, kWhile)));
  cast.tell_all();
  expect_traffic(cast, 2);
}

// Two processes whose connection broke though both live.
TEST_P(PeersTest, AProcessMayJoinAgainInALaterView) {
  Cast cast = connected_cast_of(3);
  CHECK_OK(cast[0].set_peers({cast.table()[0], {}, cast.table()[2]}));
  std::byte byte;
  EXPECT_TRUE(accuses(receive(cast[1], 0, tag(1), {&byte, 1}), 0));
  cast.each(
      [](Transport& transport) { transport.revoke(View(1), Cancelled("rank 1 was cut off")); });
  cast.table()[1].since = View(2);
  cast.tell_all();
  expect_traffic(cast, 2);
}

TEST_P(PeersTest, ACutOfAConnectionIsSeenByBothAndWithoutOneThereIsNothingToCut) {
  Cast cast = cast_of(2);
  cast[0].cut(Rank(1));
  cast.each(connect_with_all);
  cast[0].cut(Rank(1));
  EXPECT_TRUE(accuses(receive(cast[0], 1, tag(1), {}), 1));
  EXPECT_TRUE(accuses(receive(cast[1], 0, tag(1), {}), 0));
}

TEST_P(PeersTest, TwentyReplacementsLeaveNoOpenFile) {
  Cast cast = cast_of(3);
  expect_traffic(cast, 1);
  ptrdiff_t before = 0;
  for (uint32_t view = 2; view < 24; ++view) {
    const int rank = static_cast<int>(view % 3);
    cast.die(rank);
    cast.each(
        [&](Transport& transport) { transport.revoke(View(view - 1), Cancelled("one died")); });
    cast.enter(rank, view);
    cast.tell_all();
    expect_traffic(cast, view);
    if (view == 4) before = open_files();
  }
  // Where both call at a time, a connection of UCX has two sockets.
  constexpr ptrdiff_t kConnections = 6;  // three pairs, two channels
  const ptrdiff_t allowed = before + (GetParam() == TransportKind::kUcx ? kConnections : 0);
  // A thread that moves large messages closes what the other end has given up.
  EXPECT_TRUE(eventually([&] { return open_files() <= allowed; })) << open_files();
}

TEST_P(PeersTest, ProcessesThatBelieveInDifferentWorldsDoNotConnect) {
  auto zero = listen(GetParam());
  auto one = listen(GetParam());
  const std::vector<PeerAddress> table = {
      {zero->address(), View(0)}, {one->address(), View(0)}, {}};
  auto of_two = zero->open(Rank(0), 2, View(0));
  auto of_three = one->open(Rank(1), 3, View(0));
  CHECK_OK((*of_two)->set_peers({table[0], table[1]}));
  CHECK_OK((*of_three)->set_peers(table));
  std::thread other(
      [&] { EXPECT_TRUE(absl::IsInvalidArgument(receive(**of_three, 0, tag(1), {}))); });
  EXPECT_TRUE(absl::IsInvalidArgument(receive(**of_two, 1, tag(1), {})));
  other.join();
}

// Eight in a ring that talk to their neighbours have eight connections, not 28.
TEST(UnixPeersTest, OnlyThoseAreConnectedWhoExchangeSomething) {
  constexpr int kRing = 8;
  Cast cast(TransportKind::kUnix, kRing);
  for (int rank = 0; rank < kRing; ++rank) cast.enter(rank, 1);
  cast.tell_all();
  const ptrdiff_t before = open_files();
  for (int round = 0; round < 2; ++round) {
    cast.each([](Transport& transport) {
      const int next = (transport.rank().value + 1) % kRing;
      const int previous = (transport.rank().value + kRing - 1) % kRing;
      auto sending = transport.start_send(Rank(next), tag(1), {});
      EXPECT_TRUE(receive(transport, previous, tag(1), {}).ok());
      EXPECT_TRUE(transport.wait(std::move(sending), kPatience).ok());
    });
  }
  constexpr int kFilesOfAPair = 4;  // two streams with two ends each
  EXPECT_TRUE(eventually([&] { return open_files() - before == kRing * kFilesOfAPair; }))
      << open_files() - before;
}

INSTANTIATE_TEST_SUITE_P(All, PeersTest, testing::ValuesIn(kRealTransports),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace
}  // namespace evermoe
