// However operators share messages and however much of it is hidden behind other work, the bits are
// those of one operator after the other.

#include "train/state/bucketed_exchange.h"

#include <gtest/gtest.h>

#include <mutex>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "comm/in_process/in_process_transport.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

constexpr int kOwners = 3;
constexpr int kBucketed = 7;
using Kind = BucketedExchange::Kind;

OperatorSpec operator_of_size(int number, int64_t size) {
  OperatorSpec spec;
  spec.name = absl::StrCat("operator.", number);
  spec.parameters.push_back({.name = "matrix", .shape = {size}, .decayed = true});
  spec.layout();
  return spec;
}

// What an owner holds: operators of many sizes, with other numbers at every owner.
class Owner {
 public:
  Owner(Transport& transport, StateTypes types)
      : group(transport, {Rank(0), Rank(1), Rank(2)},
              {View(1), kFirstStageGroup, absl::Seconds(5)}) {
    for (int i = 0; i < kBucketed; ++i) {
      states_.push_back(std::make_unique<OperatorState>(
          operator_of_size(i, i % 3 == 0 ? 50'000 + i : 64 + 100 * i), group, types));
      OperatorState& state = *states_.back();
      const double salt = 1000.0 * i + 17.0 * group.index();
      const auto fill = [&](at::Tensor tensor) {
        const at::ScalarType type = tensor.scalar_type();
        const int64_t parameters =
            tensor.numel() / storage_size(type, kFlatAlignment) * kFlatAlignment;
        copy_stored(at::arange(parameters, at::kDouble).add_(salt).sin_().mul_(1e3), tensor);
      };
      fill(state.gradient());
      fill(state.shard_compute());
      operators.push_back(&state);
    }
    operators[4]->set_active({});
  }
  absl::Status exchange(Kind kind, const BucketLimits& limits) {
    BucketedExchange exchange(kind, operators, limits);
    for (size_t i = 0; i < operators.size(); ++i) {
      exchange.add_ready();
      exchange.advance();
    }
    return exchange.finish();
  }

  Communicator group;
  std::vector<OperatorState*> operators;

 private:
  std::vector<std::unique_ptr<OperatorState>> states_;
};

void run_owners(StateTypes types, const std::function<void(Owner&)>& body) {
  InProcessCluster cluster(kOwners, {.seed = 5});
  cluster.run([&](Rank, Transport& transport) {
    at::set_num_threads(1);
    Owner owner(transport, types);
    body(owner);
    transport.close();
  });
}

// By blocking calls, one operator after the other.
std::vector<at::Tensor> reduced_one_by_one(Owner& owner) {
  std::vector<at::Tensor> shards;
  for (OperatorState* const state : owner.operators) {
    std::vector<int64_t> begins;
    for (int i = 0; i < kOwners; ++i) begins.push_back(state->shard_of(i).begin);
    begins.push_back(state->spec().flat_size);
    at::Tensor sum = state->gradient().clone();
    const auto span = [](at::Tensor& t) {
      return std::span(t.mutable_data_ptr<float>(), static_cast<size_t>(t.numel()));
    };
    at::Tensor own = state->shard_gradient().clone();
    EXPECT_TRUE(
        owner.group.reduce_scatter<float>(span(sum), begins, span(own), ReduceOp::kSum).ok());
    shards.push_back(state->is_frozen() ? state->shard_gradient().clone() : own);
  }
  return shards;
}

const std::vector<BucketLimits> kLimits = {
    {1, 1}, {1, int64_t{1} << 40}, {1000, 3000}, {}, {int64_t{1} << 40, 1}};

TEST(BucketedExchangeTest, GradientsAreAddedInTheOrderOfOwners) {
  run_owners({}, [](Owner& owner) {
    const std::vector<at::Tensor> expected = reduced_one_by_one(owner);
    std::vector<at::Tensor> before;
    for (OperatorState* const state : owner.operators) before.push_back(state->gradient().clone());
    for (const BucketLimits& limits : kLimits) {
      for (size_t i = 0; i < before.size(); ++i) {
        at::Tensor gradient = owner.operators[i]->gradient();
        gradient.copy_(before[i]);
      }
      ASSERT_EQ(owner.exchange(Kind::kReduceGradients, limits), absl::OkStatus());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(at::equal(owner.operators[i]->shard_gradient(), expected[i]))
            << i << ", buckets of " << limits.bucket_bytes;
      }
    }
  });
}

TEST(BucketedExchangeTest, EverybodyGetsAllShardsOfComputeWeights) {
  for (const ElementType type : {ElementType::kFp32, ElementType::kBf16, ElementType::kFp8}) {
    std::mutex mutex;
    std::vector<std::vector<at::Tensor>> shards(kBucketed, std::vector<at::Tensor>(kOwners));
    run_owners({.stored = {.compute = type}}, [&](Owner& owner) {
      for (int i = 0; i < kBucketed; ++i) {
        const std::lock_guard lock(mutex);
        shards[static_cast<size_t>(i)][static_cast<size_t>(owner.group.index())] =
            owner.operators[static_cast<size_t>(i)]->shard_compute().clone();
      }
      ASSERT_TRUE(owner.group.barrier().ok());
      for (const BucketLimits& limits : kLimits) {
        for (OperatorState* const state : owner.operators) {
          for (int other = 0; other < kOwners; ++other) {
            const FlatRange shard = state->shard_of(other);
            if (other != owner.group.index()) stored_range(state->compute(), shard).fill_(7);
          }
        }
        ASSERT_EQ(owner.exchange(Kind::kGatherCompute, limits), absl::OkStatus());
        for (size_t i = 0; i < shards.size(); ++i) {
          if (owner.operators[i]->is_frozen()) continue;
          EXPECT_TRUE(at::equal(owner.operators[i]->compute(), at::cat(shards[i])))
              << i << ", buckets of " << limits.bucket_bytes;
          EXPECT_TRUE(at::equal(owner.operators[i]->parameter("matrix").value.to(at::kFloat),
                                widened(at::cat(shards[i]))
                                    .narrow(0, 0, owner.operators[i]->spec().parameter_count())
                                    .to(at::kFloat)))
              << i << ", what layers read";
        }
        // Nobody overwrites what others still send.
        ASSERT_TRUE(owner.group.barrier().ok());
      }
    });
  }
}

TEST(BucketedExchangeTest, AnErrorIsToldInTheEndAndNothingIsStartedAfterIt) {
  run_owners({}, [](Owner& owner) {
    if (owner.group.index() == 2) return;  // leaves
    BucketedExchange exchange(Kind::kGatherCompute, owner.operators, {1, 1});
    for (size_t i = 0; i < owner.operators.size(); ++i) {
      exchange.add_ready();
      exchange.advance();
    }
    EXPECT_FALSE(exchange.finish().ok());
  });
}

TEST(BucketedExchangeTest, WhatIsDroppedLeavesNothingBehind) {
  run_owners({}, [](Owner& owner) {
    {
      BucketedExchange exchange(Kind::kReduceGradients, owner.operators, {1000, 1 << 20});
      for (int i = 0; i < 3; ++i) exchange.add_ready();
      exchange.advance();
    }
    const std::vector<at::Tensor> expected = reduced_one_by_one(owner);
    ASSERT_EQ(owner.exchange(Kind::kReduceGradients, {}), absl::OkStatus());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(at::equal(owner.operators[i]->shard_gradient(), expected[i])) << i;
  });
}

// ---- whole jobs

using Case = std::tuple<std::string, std::string>;  // types, deferred_bytes
class BucketedJobTest : public testing::TestWithParam<Case> {};

TEST_P(BucketedJobTest, BucketsChangeNoBits) {
  const auto& [types, deferred] = GetParam();
  const JobConfig config = tiny_config(
      "qwen-moe", with_types(types, {"train.deferred_bytes=" + deferred, "train.micro_batches=5",
                                     "train.micro_batch_size=1", "train.steps=3",
                                     "model.sequence_length=16", "parallel.stages=2",
                                     "parallel.lanes=[3, 2]", "parallel.expert_replicas=2"}));
  const auto run = [&](const BucketLimits& limits) {
    TrainingCluster cluster("buckets");
    cluster.set_buckets(limits);
    return cluster.run_job(config);
  };
  const ClusterResult one_by_one = run({1, 1});
  ASSERT_TRUE(one_by_one.status.ok()) << one_by_one.status;
  for (const BucketLimits& limits :
       {BucketLimits{}, BucketLimits{int64_t{1} << 40, int64_t{1} << 40}}) {
    const ClusterResult other = run(limits);
    ASSERT_TRUE(other.status.ok()) << other.status;
    EXPECT_EQ(other.digest, one_by_one.digest) << limits.bucket_bytes;
    EXPECT_NE(other.transcript, one_by_one.transcript)
        << "buckets of " << limits.bucket_bytes << " change no message";
  }
}
INSTANTIATE_TEST_SUITE_P(All, BucketedJobTest,
                         testing::Combine(testing::ValuesIn(all_types()),
                                          testing::Values("0B", "256MiB")),
                         [](const auto& info) {
                           return types_name(std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param);
                         });

}  // namespace
}  // namespace evermoe
