// Collective calls that go on while their caller computes, over all transports.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "base/error.h"
#include "comm/communicator_testing.h"

namespace evermoe {
namespace {

using PendingCollectiveTest = CommunicatorFixture;

// One more than a chunk, and more than what is received ahead of an addition.
const size_t kPendingSizes[] = {0, 1, 65'537, 5'000'011, 1000};

void advance_to_end(PendingCollective& call) {
  while (!call.advance()) std::this_thread::yield();
}

struct PendingReduction {
  PendingReduction(Communicator& world, int members, size_t count)
      : values(values_of<float>(world.index(), count)), begins(ragged_begins(members, count)) {
    const auto own = static_cast<size_t>(world.index());
    begin = static_cast<size_t>(begins[own]);
    part = std::span(values).subspan(begin, static_cast<size_t>(begins[own + 1]) - begin);
    call = world.start_reduce_scatter<float>(values, begins, part, ReduceOp::kSum);
  }
  bool has_bits_of(const std::vector<float>& whole) const {
    return same_bits<float>(part, std::span(whole).subspan(begin, part.size()));
  }
  std::vector<float> values;
  std::vector<int64_t> begins;
  size_t begin;
  std::span<float> part;
  PendingCollective call;
};

TEST_P(PendingCollectiveTest, ReductionsHaveTheBitsOfIndexOrder) {
  run([&](Communicator& world) {
    std::vector<std::unique_ptr<PendingReduction>> reductions;
    for (const size_t count : kPendingSizes)
      reductions.push_back(std::make_unique<PendingReduction>(world, members(), count));
    for (size_t i = 0; i < reductions.size(); ++i) {
      reductions[i]->call.advance();
      ASSERT_TRUE(reductions[i]->call.wait().ok());
      EXPECT_TRUE(reductions[i]->call.wait().ok()) << "nothing is left of it";
      EXPECT_TRUE(
          reductions[i]->has_bits_of(reduced<float>(members(), kPendingSizes[i], ReduceOp::kSum)))
          << kPendingSizes[i];
    }
  });
}

TEST_P(PendingCollectiveTest, ReductionsEndWithoutBeingWaitedFor) {
  run([&](Communicator& world) {
    constexpr size_t kCount = 1'000'003;
    PendingReduction reduction(world, members(), kCount);
    advance_to_end(reduction.call);
    EXPECT_TRUE(reduction.has_bits_of(reduced<float>(members(), kCount, ReduceOp::kSum)));
    EXPECT_TRUE(reduction.call.wait().ok());
  });
}

TEST_P(PendingCollectiveTest, GathersCollectRaggedParts) {
  run([&](Communicator& world) {
    constexpr size_t kCount = 300'000;
    const auto begins = ragged_begins(members(), kCount);
    const auto own = static_cast<size_t>(world.index());
    std::vector<std::vector<std::byte>> all(3, std::vector<std::byte>(kCount));
    std::vector<PendingCollective> calls;
    for (std::vector<std::byte>& bytes : all) {
      std::fill(bytes.begin() + begins[own], bytes.begin() + begins[own + 1],
                std::byte(16 * calls.size() + own));
      calls.push_back(world.start_all_gather(bytes, begins));
    }
    advance_to_end(calls[0]);
    for (size_t call = 0; call < calls.size(); ++call) {
      ASSERT_TRUE(calls[call].wait().ok());
      for (size_t i = 0; i + 1 < begins.size(); ++i) {
        EXPECT_TRUE(std::all_of(all[call].begin() + begins[i], all[call].begin() + begins[i + 1],
                                [&](std::byte b) { return b == std::byte(16 * call + i); }));
      }
    }
  });
}

TEST_P(PendingCollectiveTest, CallsThatAllDropDisturbNoOthers) {
  run([&](Communicator& world) {
    {
      const PendingReduction dropped(world, members(), 1'000'003);
      std::vector<std::byte> bytes(1'000'000);
      const PendingCollective gather =
          world.start_all_gather(bytes, ragged_begins(members(), bytes.size()));
    }
    std::vector<float> values = values_of<float>(world.index(), 1000);
    ASSERT_TRUE(world.all_reduce<float>(values, ReduceOp::kSum).ok());
    EXPECT_TRUE(same_bits<float>(values, reduced<float>(members(), 1000, ReduceOp::kSum)));
  });
}

TEST_P(PendingCollectiveTest, CallsEndWithTheirView) {
  run_ranks(std::get<0>(GetParam()), members(), [&](Transport& transport) {
    Communicator world(transport, everybody(members()),
                       {.view = View(1), .deadline = absl::Seconds(30)});
    if (world.index() != 0 || members() == 1) {
      PendingReduction reduction(world, members(), 1'000'003);
      std::vector<std::byte> bytes(1'000'000);
      PendingCollective gather =
          world.start_all_gather(bytes, ragged_begins(members(), bytes.size()));
      transport.revoke(View(1), Cancelled("the view is over"));
      const absl::Status status = reduction.call.wait();
      // Who has no part of the result only sends, which the others may have taken before.
      const bool only_sends = members() == 1 || reduction.part.empty();
      EXPECT_TRUE(absl::IsCancelled(status) || (only_sends && status.ok())) << status;
      EXPECT_EQ(gather.wait().ok(), members() == 1);
      EXPECT_TRUE(gather.wait().ok()) << "it has told its error";
    } else {
      transport.revoke(View(1), Cancelled("the view is over"));
    }
    world.restart(View(2));
    PendingReduction reduction(world, members(), 1'000'003);
    EXPECT_TRUE(reduction.call.wait().ok());
    EXPECT_TRUE(reduction.has_bits_of(reduced<float>(members(), 1'000'003, ReduceOp::kSum)));
    EXPECT_TRUE(world.barrier().ok());
  });
}

TEST_P(PendingCollectiveTest, CallsFailWhenAMemberLeaves) {
  run_ranks(std::get<0>(GetParam()), members(), [&](Transport& transport) {
    Communicator world(transport, everybody(members()),
                       {.view = View(1), .deadline = absl::Seconds(30)});
    if (world.index() == members() - 1) return;  // without a contribution
    PendingReduction reduction(world, members(), 1'000'003);
    advance_to_end(reduction.call);  // an error is an end, too
    const absl::Status status = reduction.call.wait();
    // Who has no part of the result only sends, which the others may have taken before.
    EXPECT_TRUE(!status.ok() || reduction.part.empty());
  });
}

// A large message that is withdrawn before the receiver has room for it must not let a small one
// that was sent behind it take its place.
TEST_P(PendingCollectiveTest, CallsFailWhenAMemberGivesThemUp) {
  for (int round = 0; round < 8; ++round) {
    run_ranks(std::get<0>(GetParam()), members(), [&](Transport& transport) {
      Communicator world(transport, everybody(members()),
                         {.view = View(1), .deadline = absl::Seconds(30)});
      PendingReduction reduction(world, members(), 1'000'003);
      if (world.index() == members() - 1) return;  // withdraws its call and leaves
      const absl::Status status = reduction.call.wait();
      EXPECT_TRUE(!status.ok() ||
                  reduction.has_bits_of(reduced<float>(members(), 1'000'003, ReduceOp::kSum)));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, PendingCollectiveTest, all_transports_and_sizes(), fixture_name);

}  // namespace
}  // namespace evermoe
