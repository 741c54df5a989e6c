// Gradients are summed as soon as nothing more is added to them, and not before.
#include "train/state/gradient_reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "comm/in_process/in_process_transport.h"
#include "recovery/stage_trainer.h"

namespace evermoe {
namespace {

constexpr int kOperators = 4;
const BucketLimits kEachAlone{1, int64_t{1} << 40};

// Operators whose gradients are all `index` + 1 where a rank has computed them.
struct ReducingRank {
  explicit ReducingRank(Transport& transport, const std::vector<Rank>& owners = {Rank(0), Rank(1)})
      : group(transport, owners, {View(1), kFirstStageGroup, absl::Seconds(5)}),
        others(transport, owners, {View(1), kFirstStageGroup + 1, absl::Seconds(30)}) {
    for (int i = 0; i < kOperators; ++i) {
      OperatorSpec spec;
      spec.name = absl::StrCat("operator.", i);
      spec.parameters.push_back({.name = "matrix", .shape = {1000}, .decayed = true});
      spec.layout();
      owned.push_back(std::make_unique<OperatorState>(std::move(spec), group, StateTypes{}));
      owned.back()->defer_gradients(deferred);
      owned.back()->gradient().fill_(group.index() + 1);
      operators.push_back(owned.back().get());
    }
  }
  bool is_sum(int i) {
    const at::Tensor shard = operators[static_cast<size_t>(i)]->shard_gradient();
    return at::equal(shard, at::full_like(shard, 3));
  }

  Communicator group;
  Communicator others;  // for what is no gradient
  DeferredGradients deferred{1 << 20};
  std::vector<std::unique_ptr<OperatorState>> owned;
  std::vector<OperatorState*> operators;
};

void run_two(const std::function<void(ReducingRank&)>& body) {
  InProcessCluster cluster(2, {.seed = 5});
  cluster.run([&](Rank, Transport& transport) {
    at::set_num_threads(1);
    ReducingRank rank(transport);
    body(rank);
    transport.close();
  });
}

TEST(GradientReductionTest, OperatorsBehindAreSummedWhileThoseBeforeAreComputed) {
  run_two([](ReducingRank& rank) {
    GradientReduction reduction(rank.operators, rank.deferred, kEachAlone);
    for (int round = 0; !rank.is_sum(2) && round < 100'000; ++round) {
      reduction.add_up_to(2);
      std::this_thread::yield();
    }
    EXPECT_TRUE(rank.is_sum(2) && rank.is_sum(3));
    ASSERT_TRUE(rank.others.barrier().ok());
    for (int i = 0; i < 2; ++i) {
      EXPECT_FALSE(rank.is_sum(i));
      rank.operators[static_cast<size_t>(i)]->gradient().fill_(rank.group.index() + 1);
    }
    ASSERT_TRUE(rank.others.barrier().ok());
    reduction.run_deferred();
    ASSERT_TRUE(reduction.finish().ok());
    for (int i = 0; i < kOperators; ++i) EXPECT_TRUE(rank.is_sum(i)) << i;
  });
}

// Of every operator once, when its sum is there and those before it are still being computed.
TEST(GradientReductionTest, TellsOfEachOperatorAsSoonAsItIsSummed) {
  run_two([](ReducingRank& rank) {
    std::vector<const OperatorState*> told;
    GradientReduction reduction(rank.operators, rank.deferred, kEachAlone,
                                [&](const OperatorState& state) {
                                  const at::Tensor shard = state.shard_gradient();
                                  EXPECT_TRUE(at::equal(shard, at::full_like(shard, 3)));
                                  told.push_back(&state);
                                });
    for (int round = 0; told.size() < 2 && round < 100'000; ++round) {
      reduction.add_up_to(2);
      std::this_thread::yield();
    }
    EXPECT_THAT(told, testing::ElementsAre(rank.operators[3], rank.operators[2]));
    reduction.run_deferred();
    ASSERT_TRUE(reduction.finish().ok());
    EXPECT_EQ(told,
              (std::vector<const OperatorState*>(rank.operators.rbegin(), rank.operators.rend())));
  });
}

TEST(GradientReductionTest, GradientsThatArePutOffAreComputedFirst) {
  run_two([](ReducingRank& rank) {
    OperatorState* const last = rank.operators[kOperators - 1];
    last->gradient().zero_();
    GradientReduction reduction(rank.operators, rank.deferred, kEachAlone);
    last->parameter("matrix").deferred->add(
        1, [&] { last->gradient().fill_(rank.group.index() + 1); });
    reduction.add_up_to(0);  // nothing is summed: all wait for the last
    EXPECT_FALSE(rank.is_sum(0));
    reduction.run_deferred();
    ASSERT_TRUE(reduction.finish().ok());
    for (int i = 0; i < kOperators; ++i) EXPECT_TRUE(rank.is_sum(i)) << i;
  });
}

TEST(GradientReductionTest, WhatIsSummedFirstIsComputedFirst) {
  run_two([](ReducingRank& rank) {
    std::vector<int> computed;
    GradientReduction reduction(rank.operators, rank.deferred, kEachAlone);
    for (const int i : {0, 3, 1, 3, 0}) {
      rank.operators[static_cast<size_t>(i)]->parameter("matrix").deferred->add(
          1, [&computed, i] { computed.push_back(i); });
    }
    reduction.run_deferred();
    ASSERT_TRUE(reduction.finish().ok());
    EXPECT_THAT(computed, testing::ElementsAre(3, 3, 1, 0, 0));
  });
}

TEST(GradientReductionTest, OperatorsOfOneOwnerAreToldOfInTheOrderInWhichTheyAreComplete) {
  InProcessCluster cluster(1, {.seed = 5});
  cluster.run([&](Rank, Transport& transport) {
    ReducingRank rank(transport, {Rank(0)});
    std::vector<const OperatorState*> told;
    GradientReduction reduction(rank.operators, rank.deferred, kEachAlone,
                                [&](const OperatorState& state) { told.push_back(&state); });
    for (OperatorState* const state : {rank.operators[1], rank.operators[3]})
      state->parameter("matrix").deferred->add(1, [] {});
    reduction.add_up_to(2);
    EXPECT_THAT(told, testing::ElementsAre(rank.operators[2]));
    reduction.run_deferred();
    EXPECT_THAT(told, testing::ElementsAre(rank.operators[2], rank.operators[0], rank.operators[3],
                                           rank.operators[1]));
    ASSERT_TRUE(reduction.finish().ok());
    transport.close();
  });
}

}  // namespace
}  // namespace evermoe
