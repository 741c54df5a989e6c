// Processes that replace each other, as transports of one process; the test ends them without a
// goodbye. Real deaths are in process_test.cc.
#include <gtest/gtest.h>
#include <time.h>

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

class MeetingTest : public testing::TestWithParam<TransportKind> {
 protected:
  static Cast cast_of(int size, uint32_t since = 1) {
    Cast cast(GetParam(), size);
    for (int rank = 0; rank < size; ++rank) cast.enter(rank, since);
    EXPECT_TRUE(all_ok(cast.meet_all()));
    return cast;
  }
};

TEST_P(MeetingTest, AReplacedRankIsMetAndTheOthersAreNotTouched) {
  Cast cast = cast_of(3);
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
  EXPECT_TRUE(all_ok(cast.meet_all()));
  expect_traffic(cast, 2);
  EXPECT_EQ(receive(cast[0], 1, tag(7), {&byte, 1}).message(), "rank 1 died");
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(receive(cast[0], 1, tag(7, 2), {&byte, 1}, absl::Milliseconds(5))));
  stop = true;
  for (std::thread& thread : survivors_go_on) thread.join();
}

TEST_P(MeetingTest, MeetingAgainChangesNothing) {
  Cast cast = cast_of(3);
  std::byte byte;
  auto waiting = cast[0].start_receive(Rank(1), tag(1), {&byte, 1});
  EXPECT_TRUE(all_ok(cast.meet_all()));
  EXPECT_TRUE(cast.meet(2, absl::ZeroDuration()).ok());
  EXPECT_TRUE(send(cast[1], 0, tag(1), {&byte, 1}).ok());
  EXPECT_TRUE(cast[0].wait(std::move(waiting), kPatience).ok());
}

TEST_P(MeetingTest, TwoNewcomersAtOnce) {
  Cast cast = cast_of(4);
  cast.die(1);
  cast.die(2);
  for (const int survivor : {0, 3}) cast[survivor].revoke(View(1), Cancelled("two died"));
  cast.enter(2, 2);
  cast.enter(1, 2);
  EXPECT_TRUE(all_ok(cast.meet_all()));
  expect_traffic(cast, 2);
}

TEST_P(MeetingTest, NobodyIsThereBeforeAMeetingAndWhereTheTableIsEmpty) {
  Cast cast(GetParam(), 3);
  std::byte byte;
  cast.enter(0, 0);
  cast.enter(2, 0);
  EXPECT_TRUE(accuses(receive(cast[0], 2, tag(1), {&byte, 1}), 2));
  EXPECT_TRUE(accuses(send(cast[0], 2, service_tag(1), {&byte, 1}), 2));
  EXPECT_TRUE(all_ok({cast.meet_all()}));
  EXPECT_TRUE(send(cast[0], 2, tag(1), {&byte, 1}).ok());
  EXPECT_TRUE(receive(cast[2], 0, tag(1), {&byte, 1}).ok());
  EXPECT_TRUE(accuses(receive(cast[0], 1, tag(1), {&byte, 1}), 1));
  EXPECT_TRUE(send(cast[0], 0, service_tag(1), {&byte, 1}).ok());
  EXPECT_TRUE(cast[0].receive_service_message(kPatience).ok());
  // Who is no longer named is dropped.
  auto waiting = cast[0].start_receive(Rank(2), tag(3), {&byte, 1});
  cast.table()[2] = {};
  EXPECT_TRUE(cast.meet(0).ok());
  EXPECT_TRUE(accuses(cast[0].wait(std::move(waiting), kPatience), 2));
}

TEST_P(MeetingTest, ASilentProcessIsATimeoutAndMayStillCome) {
  Cast cast = cast_of(3);
  cast.die(1);
  cast.enter(1, 2);
  for (const int rank : {0, 2}) {
    const absl::Status status = cast.meet(rank, absl::Milliseconds(20));
    EXPECT_TRUE(absl::IsDeadlineExceeded(status) && accused_rank(status) == Rank(1)) << status;
  }
  const absl::Status status = cast.meet(1, absl::Milliseconds(20));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_TRUE(all_ok(cast.meet_all()));
  expect_traffic(cast, 2);
}

absl::Duration processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

TEST_P(MeetingTest, NobodySpinsWhileAProcessIsSilent) {
  constexpr absl::Duration kWait = absl::Milliseconds(400);
  Cast cast = cast_of(2);
  cast.die(1);
  cast.enter(1, 2);
  const absl::Duration before = processor_time();
  EXPECT_TRUE(absl::IsDeadlineExceeded(cast.meet(0, kWait)));
  // Nor afterwards, while the call is not answered yet.
  EXPECT_TRUE(absl::IsDeadlineExceeded(cast[0].receive_service_message(kWait).status()));
  EXPECT_LT(processor_time() - before, kWait / 2);
}

TEST_P(MeetingTest, ANewcomerThatDiesInTheMeetingIsAccusedAndTheNextOneSucceeds) {
  Cast cast = cast_of(3);
  for (const uint32_t since : {2u, 3u, 3u}) {
    cast.die(1);
    for (const int survivor : {0, 2})
      cast[survivor].revoke(View(since - 1), Cancelled("rank 1 died"));
    cast.enter(1, since);
    // Rank 2 is not in the meeting yet when the newcomer dies.
    std::thread zero([&] { cast.meet(0).IgnoreError(); });
    EXPECT_TRUE(absl::IsDeadlineExceeded(cast.meet(1, absl::Milliseconds(30))));
    cast.die(1);
    zero.join();
    EXPECT_TRUE(accuses(cast.meet(2), 1));
    EXPECT_TRUE(accuses(cast.meet(0), 1));
  }
  cast.enter(1, 4);
  EXPECT_TRUE(all_ok(cast.meet_all()));
  expect_traffic(cast, 4);
}

TEST_P(MeetingTest, TheDeadAreFoundWhileTheMeetingWaits) {
  Cast cast = cast_of(3);
  cast.die(1);
  cast.enter(1, 2);
  std::vector<absl::Status> results(3);
  std::thread zero([&] { results[0] = cast.meet(0); });
  std::thread two([&] { results[2] = cast.meet(2); });
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

TEST_P(MeetingTest, TheGreetingOfADeadProcessIsNotItsSuccessors) {
  Cast cast = cast_of(3);
  cast.die(1);
  cast.enter(1, 2);
  // Rank 0 has not been told of it yet, but what it sends arrives.
  constexpr absl::Duration kWhile = absl::Milliseconds(60);
  std::byte byte;
  std::thread service_messages([&] { EXPECT_FALSE(cast[0].receive_service_message(kWhile).ok()); });
  std::thread messages([&] { EXPECT_FALSE(receive(cast[0], 2, tag(1), {&byte, 1}, kWhile).ok()); });
  EXPECT_TRUE(absl::IsDeadlineExceeded(cast.meet(1, kWhile)));
  service_messages.join();
  messages.join();
  cast.die(1);
  cast.enter(1, 2);
  EXPECT_TRUE(absl::IsDeadlineExceeded(cast.meet(0, kWhile)));
  EXPECT_TRUE(all_ok(cast.meet_all()));
  expect_traffic(cast, 2);
}

// Two processes whose connection broke though both live.
TEST_P(MeetingTest, AProcessMayJoinAgainInALaterView) {
  Cast cast = cast_of(3);
  cast[0].meet({cast.table()[0], {}, cast.table()[2]}, kPatience).IgnoreError();
  std::byte byte;
  EXPECT_TRUE(accuses(receive(cast[1], 0, tag(1), {&byte, 1}), 0));
  cast.each(
      [](Transport& transport) { transport.revoke(View(1), Cancelled("rank 1 was cut off")); });
  cast.table()[1].since = View(2);
  EXPECT_TRUE(all_ok(cast.meet_all()));
  expect_traffic(cast, 2);
}

TEST_P(MeetingTest, TwentyReplacementsLeaveNoOpenFile) {
  Cast cast = cast_of(3);
  ptrdiff_t before = 0;
  for (uint32_t view = 2; view < 24; ++view) {
    const int rank = static_cast<int>(view % 3);
    cast.die(rank);
    cast.each(
        [&](Transport& transport) { transport.revoke(View(view - 1), Cancelled("one died")); });
    cast.enter(rank, view);
    ASSERT_TRUE(all_ok(cast.meet_all())) << "view " << view;
    expect_traffic(cast, view);
    if (view == 4) before = open_files();
  }
  EXPECT_LE(open_files(), before);
}

TEST_P(MeetingTest, ProcessesThatBelieveInDifferentWorldsDoNotMeet) {
  auto zero = listen(GetParam());
  auto one = listen(GetParam());
  const std::vector<PeerAddress> table = {
      {zero->address(), View(0)}, {one->address(), View(0)}, {}};
  auto of_two = zero->open(Rank(0), 2, View(0));
  auto of_three = one->open(Rank(1), 3, View(0));
  std::thread other(
      [&] { EXPECT_TRUE(absl::IsInvalidArgument((*of_three)->meet(table, kPatience))); });
  EXPECT_TRUE(absl::IsInvalidArgument((*of_two)->meet({table[0], table[1]}, kPatience)));
  other.join();
}

INSTANTIATE_TEST_SUITE_P(All, MeetingTest, testing::ValuesIn(kRealTransports),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace
}  // namespace evermoe
