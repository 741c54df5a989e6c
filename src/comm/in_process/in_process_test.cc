// The simulated transport: repeatable from its seed, and faithful to the errors of the contract.
#include "comm/in_process/in_process_transport.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "comm/communicator.h"

namespace evermoe {
namespace {

std::vector<Rank> everybody(const Transport& transport) {
  std::vector<Rank> members;
  for (int i = 0; i < transport.size(); ++i) members.push_back(Rank(i));
  return members;
}

struct Outcome {
  Fingerprint transcript;
  std::vector<std::vector<float>> sums;
  std::vector<absl::Status> statuses;
  std::vector<int64_t> calls;
  absl::Duration took;
};

// A few collectives of four ranks.
Outcome reduce_with(InProcessOptions options, size_t count = 1000) {
  constexpr int kRanks = 4;
  Outcome outcome;
  outcome.sums.resize(kRanks);
  outcome.statuses.resize(kRanks);
  InProcessCluster cluster(kRanks, std::move(options));
  cluster.run([&](Rank rank, Transport& transport) {
    Communicator world(transport, everybody(transport),
                       {.view = View(1), .deadline = absl::Seconds(10)});
    const auto at = static_cast<size_t>(rank.value);
    std::vector<float>& values = outcome.sums[at];
    for (size_t k = 0; k < count; ++k) values.push_back(1.0f / static_cast<float>(k + at + 1));
    absl::Status& status = outcome.statuses[at];
    for (int round = 0; round < 3 && status.ok(); ++round)
      status = world.all_reduce<float>(values, ReduceOp::kSum);
    if (status.ok()) status = world.barrier();
    if (status.ok()) transport.close();
  });
  outcome.transcript = cluster.transcript();
  outcome.took = cluster.now();
  for (int i = 0; i < kRanks; ++i) outcome.calls.push_back(cluster.calls(Rank(i)));
  return outcome;
}

TEST(InProcessTest, SameSeedSameTranscript) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    EXPECT_EQ(reduce_with({.seed = seed}).transcript, reduce_with({.seed = seed}).transcript);
  }
}

TEST(InProcessTest, OtherSeedsInterleaveDifferentlyAndReduceToTheSameBits) {
  const Outcome first = reduce_with({.seed = 0});
  std::set<Fingerprint> transcripts;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Outcome outcome = reduce_with({.seed = seed});
    transcripts.insert(outcome.transcript);
    for (const auto& sum : outcome.sums) EXPECT_EQ(sum, first.sums[0]) << "seed " << seed;
  }
  EXPECT_EQ(transcripts.size(), 10u);
}

TEST(InProcessTest, AKillAtAnyCallLeavesNobodyWaiting) {
  const Outcome whole = reduce_with({.seed = 3}, 40'000);
  for (int64_t call = 0; call < whole.calls[2]; ++call) {
    const Outcome outcome = reduce_with({.seed = 3, .kills = {{Rank(2), call}}}, 40'000);
    for (size_t rank = 0; rank < outcome.statuses.size(); ++rank) {
      const absl::Status& status = outcome.statuses[rank];
      if (rank == 2) {
        // Only its last call, close(), has no status to fail with.
        EXPECT_TRUE(absl::IsCancelled(status) || call + 1 == whole.calls[2]);
      } else if (absl::IsUnavailable(status)) {
        // The dead rank itself, or one that gave up because of it and exited.
        EXPECT_TRUE(accused_rank(status).has_value());
      } else {
        EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << "call " << call << ": " << status;
      }
    }
  }
}

TEST(InProcessTest, TheOthersGoOnAfterADeath) {
  InProcessCluster cluster(3, {.seed = 8, .kills = {{Rank(1), 0}}});
  cluster.run([&](Rank rank, Transport& transport) {
    if (rank == Rank(1)) {
      EXPECT_FALSE(transport.wait(transport.start_send(Rank(0), {}, {}), absl::Seconds(1)).ok());
      return;
    }
    const absl::Status lost =
        transport.wait(transport.start_receive(Rank(1), {}, {}), absl::Seconds(1));
    EXPECT_TRUE(absl::IsUnavailable(lost));
    EXPECT_EQ(accused_rank(lost), Rank(1));
    Communicator survivors(transport, {Rank(0), Rank(2)},
                           {.view = View(2), .deadline = absl::Seconds(1)});
    EXPECT_TRUE(survivors.barrier().ok());
    transport.close();
  });
  EXPECT_LT(cluster.now(), absl::Seconds(1));
}

TEST(InProcessTest, ADeadlockIsATimeoutOfTheEarliestDeadline) {
  InProcessCluster cluster(2, {.seed = 1});
  cluster.run([&](Rank rank, Transport& transport) {
    const Rank other(1 - rank.value);
    std::byte byte;
    const absl::Duration patience = rank == Rank(0) ? absl::Hours(1) : absl::Hours(2);
    const absl::Status status =
        transport.wait(transport.start_receive(other, {}, {&byte, 1}), patience);
    if (rank == Rank(0)) {
      EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
      EXPECT_EQ(accused_rank(status), other);
    } else {
      EXPECT_TRUE(absl::IsCancelled(status)) << status;
    }
    transport.close();
  });
  EXPECT_GE(cluster.now(), absl::Hours(1));
  EXPECT_LT(cluster.now(), absl::Hours(2));
}

TEST(InProcessTest, PollingPassesVirtualTime) {
  InProcessCluster cluster(2, {.seed = 2});
  cluster.run([&](Rank rank, Transport& transport) {
    std::byte byte{7};
    auto operation = rank == Rank(0) ? transport.start_send(Rank(1), {}, {&byte, 1})
                                     : transport.start_receive(Rank(0), {}, {&byte, 1});
    while (!transport.done(*operation)) continue;
    EXPECT_TRUE(transport.wait(std::move(operation), absl::ZeroDuration()).ok());
    transport.close();
  });
}

TEST(InProcessTest, ALargeSendIsDoneOnlyWhenItArrives) {
  InProcessCluster cluster(2, {.seed = 4, .delay_max = absl::Seconds(5)});
  cluster.run([&](Rank rank, Transport& transport) {
    std::vector<std::byte> bytes(1 << 20);
    if (rank == Rank(0)) {
      EXPECT_TRUE(absl::IsDeadlineExceeded(
          transport.wait(transport.start_send(Rank(1), {}, bytes), absl::ZeroDuration())));
    }
    transport.close();
  });
}

}  // namespace
}  // namespace evermoe
