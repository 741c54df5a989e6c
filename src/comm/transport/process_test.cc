// Real processes that are killed and stopped.
#include <gtest/gtest.h>

#include "comm/communicator.h"
#include "comm/transport/process_testing.h"

namespace evermoe {
namespace {

// The promise of transport.h, and what a test waits at most for it on a busy machine. How long the
// report really took is checked against the promise by its best of several attempts.
#ifdef __SANITIZE_THREAD__
// The sanitizer's shadow of a killed process's memory is freed before its sockets close.
constexpr absl::Duration kReportMax = absl::Milliseconds(500);
#else
constexpr absl::Duration kReportMax = absl::Milliseconds(100);
#endif

class ProcessTest : public testing::TestWithParam<TransportKind> {};

// Ranks 0 and 2 exchange 16 MB with rank 1 when it is killed; then they go on without it.
bool exchange_until_death(Participant& participant) {
  Transport& transport = participant.transport;
  const int own = transport.rank().value;
  std::vector<std::byte> out(16 << 20, std::byte(own));
  std::vector<std::byte> in(out.size());
  Communicator world(transport, {Rank(0), Rank(1), Rank(2)}, {View(1), 0, kPatience});
  for (int round = 1;; ++round) {
    participant.reach(round);
    const int peer = own == 1 ? round % 2 * 2 : 1;
    absl::Status status;
    if (own == 1 || round % 2 * 2 == own) {
      auto receiving = world.start_receive(peer, 1, in);
      auto sending = world.start_send(peer, 1, out);
      status = receiving.wait();
      if (status.ok()) status = sending.wait();
    }
    if (status.ok()) continue;
    participant.report_failure(status);
    if (!accuses(status, 1)) return false;
    break;
  }
  Communicator survivors(transport, {Rank(0), Rank(2)}, {View(2), 0, kPatience});
  std::vector<int64_t> values(100'000, 1);
  if (!survivors.all_reduce<int64_t>(values, ReduceOp::kSum).ok() || values[99'999] != 2)
    return false;
  if (!survivors.barrier().ok()) return false;
  transport.close();
  return true;
}

TEST_P(ProcessTest, AKilledPeerIsReportedWithinThePromiseAndTheOthersGoOn) {
  absl::Duration fastest = absl::InfiniteDuration();
  for (int attempt = 0; attempt < 5; ++attempt) {
    Job job(GetParam(), 3, exchange_until_death);
    ASSERT_TRUE(job.reaches(1, 3 + attempt));
    const int64_t killed_at = now_ns();
    job.send_signal(1, SIGKILL);
    EXPECT_TRUE(job.succeeds(0)) << job[0].message;
    EXPECT_TRUE(job.succeeds(2)) << job[2].message;
    const int64_t reported_at = std::max(job[0].failed_at_ns.load(), job[2].failed_at_ns.load());
    ASSERT_GT(reported_at, killed_at);
    fastest = std::min(fastest, absl::Nanoseconds(reported_at - killed_at));
    RecordProperty(absl::StrCat("report_us_", attempt),
                   static_cast<int>((reported_at - killed_at) / 1000));
  }
  EXPECT_LT(fastest, kReportMax);
}

TEST_P(ProcessTest, AnIdlePeersDeathIsReportedToAWaiter) {
  Job job(GetParam(), 2, [](Participant& participant) {
    std::byte byte;
    auto receiving = participant.transport.start_receive(
        Rank(1 - participant.transport.rank().value), Tag{View(1)}, {&byte, 1});
    participant.reach(1);
    const absl::Status status = participant.transport.wait(std::move(receiving), kPatience);
    participant.report_failure(status);
    return accuses(status, 1);
  });
  ASSERT_TRUE(job.reaches(0, 1) && job.reaches(1, 1));
  job.send_signal(1, SIGKILL);
  EXPECT_TRUE(job.succeeds(0)) << job[0].message;
}

TEST_P(ProcessTest, AnExitWithoutGoodbyeIsADeathAndWhatWasSentStillArrives) {
  Job job(GetParam(), 2, [](Participant& participant) {
    Transport& transport = participant.transport;
    std::byte byte{5};
    if (transport.rank() == Rank(1)) {
      const bool sent =
          transport.wait(transport.start_send(Rank(0), Tag{View(1)}, {&byte, 1}), kPatience).ok();
      participant.reach(1);
      // Until the message has been read: UCX loses what a dying process has sent last.
      if (!participant.wait_until_told()) return false;
      ::_exit(sent ? 0 : 1);
    }
    if (!transport.wait(transport.start_receive(Rank(1), Tag{View(1)}, {&byte, 1}), kPatience).ok())
      return false;
    participant.reach(1);
    const absl::Status status =
        transport.wait(transport.start_receive(Rank(1), Tag{View(1)}, {&byte, 1}), kPatience);
    participant.report_failure(status);
    return accuses(status, 1) && byte == std::byte(5);
  });
  ASSERT_TRUE(job.reaches(0, 1));
  job.tell(1);
  EXPECT_TRUE(job.succeeds(1));
  EXPECT_TRUE(job.succeeds(0)) << job[0].message;
}

TEST_P(ProcessTest, AStoppedPeerIsATimeoutThatNamesIt) {
  Job job(GetParam(), 3, [](Participant& participant) {
    Transport& transport = participant.transport;
    participant.reach(1);
    if (transport.rank() == Rank(1)) return participant.wait_until_told();
    if (!participant.wait_until_told()) return false;
    // In the middle of a large message, and again for one that never begins.
    std::vector<std::byte> large(16 << 20);
    auto sending = transport.start_send(Rank(1), Tag{View(1)}, large);
    const absl::Status status = transport.wait(std::move(sending), absl::Milliseconds(50));
    std::byte byte;
    const absl::Status silent = transport.wait(
        transport.start_receive(Rank(1), Tag{View(1)}, {&byte, 1}), absl::Milliseconds(50));
    participant.report_failure(status);
    Communicator others(transport, {Rank(0), Rank(2)}, {View(2), 0, kPatience});
    if (!others.barrier().ok()) return false;
    return absl::IsDeadlineExceeded(status) && accused_rank(status) == Rank(1) &&
           absl::IsDeadlineExceeded(silent) && accused_rank(silent) == Rank(1);
  });
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(job.reaches(rank, 1));
  job.send_signal(1, SIGSTOP);
  job.tell(0);
  job.tell(2);
  EXPECT_TRUE(job.succeeds(0)) << job[0].message;
  EXPECT_TRUE(job.succeeds(2)) << job[2].message;
}

TEST_P(ProcessTest, ACleanCloseAccusesNobody) {
  Job job(GetParam(), 3, [](Participant& participant) {
    Transport& transport = participant.transport;
    if (transport.rank() == Rank(1)) {
      transport.close();
      return true;
    }
    std::byte byte;
    const absl::Status status =
        transport.wait(transport.start_receive(Rank(1), Tag{View(1)}, {&byte, 1}), kPatience);
    participant.report_failure(status);
    Communicator others(transport, {Rank(0), Rank(2)}, {View(1), 0, kPatience});
    const bool goes_on = others.barrier().ok();
    transport.close();
    return goes_on && absl::IsCancelled(status);
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(job.succeeds(rank)) << job[rank].message;
}

TEST_P(ProcessTest, ADeathDuringACollectiveEndsItForEverybody) {
  Job job(GetParam(), 4, [](Participant& participant) {
    Communicator world(participant.transport, {Rank(0), Rank(1), Rank(2), Rank(3)},
                       {View(1), 0, kPatience});
    std::vector<float> values(1'000'000, 1.0f);
    for (int round = 1;; ++round) {
      participant.reach(round);
      const absl::Status status = world.all_reduce<float>(values, ReduceOp::kMax);
      if (status.ok()) continue;
      participant.report_failure(status);
      // Rank 3 itself, or a survivor that had given up and left before.
      if (accuses(status, 3)) return participant.transport.revoke(View(1), status), true;
      return absl::IsUnavailable(status);
    }
  });
  ASSERT_TRUE(job.reaches(3, 3));
  job.send_signal(3, SIGKILL);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(job.succeeds(rank)) << job[rank].message;
}

// Occupies a core without a look at the transport.
template <typename Condition>
void compute_until(Condition condition) {
  volatile double value = 1;
  do {
    for (int i = 0; i < 100'000; ++i) value = value * 1.0000001;
  } while (!condition());
}

constexpr size_t kLarge = 4 << 20;                        // many times what the kernel buffers
constexpr absl::Duration kComputing = absl::Seconds(10);  // what fails, fails after this

TEST_P(ProcessTest, ALargeMessageArrivesWhileItsSenderComputes) {
  Job job(GetParam(), 2, [](Participant& participant) {
    Transport& transport = participant.transport;
    if (transport.rank() == Rank(1)) {
      std::vector<std::byte> into(kLarge);
      const bool came =
          receive(transport, 0, tag(1), into, kComputing).ok() && into == bytes_of(kLarge, 7);
      participant.reach(came ? 2 : 1);
      return came;
    }
    const auto message = bytes_of(kLarge, 7);
    auto sending = transport.start_send(Rank(1), tag(1), message);
    compute_until([&] { return participant.is_told(); });
    return transport.wait(std::move(sending), kPatience).ok();
  });
  ASSERT_TRUE(job.reaches(1, 1));
  EXPECT_EQ(job[1].progress, 2);
  job.tell(0);
  EXPECT_TRUE(job.succeeds(0) && job.succeeds(1));
}

TEST_P(ProcessTest, ALargeMessageIsTakenWhileItsReceiverComputes) {
  Job job(GetParam(), 2, [](Participant& participant) {
    Transport& transport = participant.transport;
    if (transport.rank() == Rank(0)) {
      const bool taken = send(transport, 1, tag(1), bytes_of(kLarge, 7), kComputing).ok();
      participant.reach(taken ? 2 : 1);
      return taken;
    }
    std::vector<std::byte> into(kLarge);
    auto receiving = transport.start_receive(Rank(0), tag(1), into);
    compute_until([&] { return participant.is_told(); });
    return transport.wait(std::move(receiving), kPatience).ok() && into == bytes_of(kLarge, 7);
  });
  ASSERT_TRUE(job.reaches(0, 1));
  EXPECT_EQ(job[0].progress, 2);
  job.tell(1);
  EXPECT_TRUE(job.succeeds(0) && job.succeeds(1));
}

TEST_P(ProcessTest, LargeMessagesCrossEachOtherWhileBothEndsCompute) {
  Job job(GetParam(), 2, [](Participant& participant) {
    Transport& transport = participant.transport;
    const int own = transport.rank().value;
    const auto message = bytes_of(kLarge, own);
    std::vector<std::byte> into(kLarge);
    auto receiving = transport.start_receive(Rank(1 - own), tag(1), into);
    auto sending = transport.start_send(Rank(1 - own), tag(1), message);
    const Deadline deadline(absl::Seconds(2));
    compute_until([&] { return deadline.passed(); });
    // No time to move anything now.
    const bool is_sent = transport.wait(std::move(sending), absl::ZeroDuration()).ok();
    const bool has_come = transport.wait(std::move(receiving), absl::ZeroDuration()).ok();
    return is_sent && has_come && into == bytes_of(kLarge, 1 - own);
  });
  EXPECT_TRUE(job.succeeds(0) && job.succeeds(1));
}

INSTANTIATE_TEST_SUITE_P(All, ProcessTest,
                         testing::Values(TransportKind::kUnix, TransportKind::kUcx),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace
}  // namespace evermoe
