// How the state of operators comes to other owners, and that of the others stays where it is.
#include "train/state/owner_change.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "absl/strings/match.h"
#include "base/error.h"
#include "config/job_topology.h"
#include "tensor/fake_device_testing.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

TEST(OwnerChange, ARankReceivesWhatItLacks) {
  const int64_t size = 4 * kFlatAlignment;
  EXPECT_EQ(elements_to_move(size, {0}, {0}), 0);
  EXPECT_EQ(elements_to_move(size, {0}, {1}), size);
  EXPECT_EQ(elements_to_move(size, {0}, {0, 1}), size / 2);
  EXPECT_EQ(elements_to_move(size, {0, 1}, {0}), size / 2);
  EXPECT_EQ(elements_to_move(size, {0, 1}, {1, 0}), size) << "each has the other half";
}

// An operator as a rank has it.
struct Held {
  std::vector<Rank> owners;
  const void *master, *moment, *compute;
  at::Tensor weights;  // of its shard, a copy
};

std::map<std::string, Held> states_of(Trainer& trainer) {
  std::map<std::string, Held> all;
  for (OperatorState* const state : trainer.operator_states()) {
    Held held{{},
              state->master().data_ptr(),
              state->exp_avg().data_ptr(),
              state->compute().data_ptr(),
              state->compute().clone()};
    for (int i = 0; i < state->owners().size(); ++i)
      held.owners.push_back(state->owners().rank_of(i));
    all.emplace(state->spec().name, std::move(held));
  }
  return all;
}

struct StayingCase {
  const char* name;
  const char* precision;
  bool on_device;  // where experts lie side by side and stay together or not at all
  friend std::ostream& operator<<(std::ostream& out, const StayingCase& c) { return out << c.name; }
};

class StayingTest : public testing::TestWithParam<StayingCase> {
 protected:
  static JobConfig config(const std::vector<std::string>& more) {
    std::vector<std::string> settings = {"parallel.lanes=3",
                                         "train.micro_batches=6",
                                         "model.experts=6",
                                         "model.sequence_length=16",
                                         "model.routing=synthetic",
                                         "model.routing_skew=0.3",
                                         std::string("train.precision=") + GetParam().precision};
    settings.insert(settings.end(), more.begin(), more.end());
    return tiny_config("mixtral", settings);
  }
  void compare(Trainer& trainer, const std::map<std::string, Held>& before) {
    for (const auto& [name, now] : states_of(trainer)) {
      const auto then = before.find(name);
      if (then == before.end() || then->second.owners != now.owners) {
        ++moved_;
        continue;
      }
      ++stayed_;
      EXPECT_TRUE(at::equal(then->second.weights, now.weights)) << name;
      if (GetParam().on_device && absl::StrContains(name, "expert")) continue;
      EXPECT_EQ(then->second.master, now.master) << name;
      EXPECT_EQ(then->second.moment, now.moment) << name;
      EXPECT_EQ(then->second.compute, now.compute) << name;
    }
  }
  void run(const JobConfig& job, const std::function<absl::Status(TrainingRank&)>& change) {
    TrainingCluster cluster("staying");
    if (GetParam().on_device) cluster.set_device(fake_device());
    const ClusterResult result = cluster.run(job, [&](TrainingRank& rank) -> absl::Status {
      RETURN_IF_ERROR(rank.steps(2));
      const std::map<std::string, Held> before = states_of(rank.trainer());
      RETURN_IF_ERROR(change(rank));
      compare(rank.trainer(), before);
      return absl::OkStatus();
    });
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_GT(moved_, 0);
  }

  std::atomic<int> stayed_ = 0, moved_ = 0;  // on all ranks
};

TEST_P(StayingTest, WhereAFewExpertsMoveAllOthersKeepTheirMemory) {
  const JobConfig job = config({"experts.replicas=by-load", "experts.rebalance_every_steps=2",
                                "experts.rebalance_gain=1.01"});
  run(job, [](TrainingRank& rank) -> absl::Status {
    EXPECT_TRUE(rank.trainer().may_move_experts(Step(2)));
    return rank.trainer().move_experts();
  });
  EXPECT_GT(stayed_, moved_) << "all but experts, at least";
}

TEST_P(StayingTest, WhereLanesChangeAsWellAsTheyCan) {
  const JobConfig job = config({});
  const Membership two(topology_of(job), {Rank(2)});
  run(job, [&](TrainingRank& rank) {
    RecordBytes position = rank.trainer().position();
    return rank.trainer().change_membership(two, View(1), position);
  });
  EXPECT_GT(stayed_, 0) << "experts of the lanes that go on";
}

INSTANTIATE_TEST_SUITE_P(All, StayingTest,
                         testing::Values(StayingCase{"fp32", "fp32", false},
                                         StayingCase{"bf16", "bf16", false},
                                         StayingCase{"fake_device", "bf16", true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace evermoe
