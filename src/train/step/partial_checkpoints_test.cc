// A trainer whose checkpoints hold a few experts: after a restart every operator has exactly the
// state of the step that it is said to have.
#include "train/step/partial_checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

JobConfig job(const std::vector<std::string>& more) {
  std::vector<std::string> settings = {
      "train.micro_batches=4",    "train.micro_batch_size=1", "train.steps=12",
      "model.sequence_length=16", "checkpoint.every_steps=2", "checkpoint.keep_newest=1",
      "parallel.stages=2",        "parallel.lanes=2",         "protection.plt_max=1"};
  settings.insert(settings.end(), more.begin(), more.end());
  return tiny_config("qwen-moe", settings);
}

std::vector<std::string> partial(const std::vector<std::string>& more) {
  std::vector<std::string> settings = {"protection.strategy=partial-experts"};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

// Steps, with a save every two and two more behind the last, so that it is committed.
absl::Status train_to_commit(TrainingRank& rank, int saves) {
  for (int i = 0; i < saves; ++i) {
    RETURN_IF_ERROR(rank.steps(2));
    if (rank.trainer().is_saved(rank.trainer().step())) RETURN_IF_ERROR(rank.trainer().save());
  }
  return rank.steps(2);
}

ClusterResult exact_state(const std::vector<std::string>& settings, int steps) {
  return TrainingCluster("exact").run(job(settings),
                                      [&](TrainingRank& rank) { return rank.steps(steps); });
}

bool has_state(const ClusterResult& result, const ClusterResult& expected, const std::string& op) {
  return at::equal(result.weights.at(op), expected.weights.at(op)) &&
         at::equal(result.exp_avgs.at(op), expected.exp_avgs.at(op)) &&
         at::equal(result.exp_avg_sqs.at(op), expected.exp_avg_sqs.at(op)) &&
         at::equal(result.compute.at(op), expected.compute.at(op));
}

class PartialCheckpointsTest : public testing::TestWithParam<std::vector<std::string>> {
 protected:
  Manifest stored() const {
    const auto reader = CheckpointReader::open(real_files(), cluster_.directory() + "/checkpoints");
    CHECK_OK(reader.status());
    const auto problems = (*reader)->verify();
    CHECK(problems.empty()) << problems.front();
    return (*reader)->manifest();
  }

  // Each operator has the exact state of the step that the manifest says. Counts experts by it.
  static std::map<int64_t, int> expect_states(const Manifest& manifest,
                                              const ClusterResult& resumed,
                                              const std::vector<std::string>& settings) {
    std::map<int64_t, ClusterResult> exact;
    std::map<int64_t, int> experts;
    const int64_t newest = manifest.position.step.value;
    for (const ManifestOperator& op : manifest.operators) {
      const int64_t step = saved_at(manifest, op).value;
      if (!exact.contains(step)) exact[step] = exact_state(settings, static_cast<int>(step));
      EXPECT_TRUE(has_state(resumed, exact[step], op.name)) << op.name << " of step " << step;
      const bool is_expert = op.name.find(".expert.") != std::string::npos;
      if (is_expert) ++experts[step];
      EXPECT_TRUE(is_expert || step == newest) << op.name;
      EXPECT_TRUE(step < newest || op.unsaved_tokens == 0) << op.name;
    }
    return experts;
  }

  TrainingCluster cluster_{"partial_checkpoints"};
};

TEST_P(PartialCheckpointsTest, NewProcessesHaveOfEachExpertWhatTheManifestSays) {
  std::vector<std::string> settings = partial({"protection.experts_saved=2"});
  settings.insert(settings.end(), GetParam().begin(), GetParam().end());
  const JobConfig config = job(settings);
  const ClusterResult first =
      cluster_.run(config, [](TrainingRank& rank) { return train_to_commit(rank, 3); });
  ASSERT_TRUE(first.status.ok()) << first.status;
  const Manifest manifest = stored();
  EXPECT_EQ(manifest.position.step, Step(6));
  const ClusterResult resumed =
      cluster_.run(config, [](TrainingRank&) { return absl::OkStatus(); });
  ASSERT_TRUE(resumed.status.ok()) << resumed.status;
  std::map<int64_t, int> experts = expect_states(manifest, resumed, GetParam());
  EXPECT_TRUE(is_mixed(manifest));
  EXPECT_EQ(experts[6], 8) << "two of each of four layers";
}

TEST_P(PartialCheckpointsTest, WhoLivesHasEverythingInMemory) {
  std::vector<std::string> settings = partial({"protection.experts_saved=1"});
  settings.insert(settings.end(), GetParam().begin(), GetParam().end());
  const ClusterResult back = cluster_.run(job(settings), [](TrainingRank& rank) -> absl::Status {
    RETURN_IF_ERROR(train_to_commit(rank, 3));
    return rank.resume();
  });
  ASSERT_TRUE(back.status.ok()) << back.status;
  EXPECT_TRUE(is_mixed(stored()));
  EXPECT_EQ(back.digest, exact_state(GetParam(), 6).digest);
}
INSTANTIATE_TEST_SUITE_P(Shapes, PartialCheckpointsTest,
                         testing::Values(std::vector<std::string>{},
                                         std::vector<std::string>{"parallel.expert_replicas=2"},
                                         std::vector<std::string>{"train.precision=bf16"},
                                         std::vector<std::string>{
                                             "protection.expert_selection=load-aware"}));

// A save is due in every step, and one takes two until all ranks know of it.
TEST_F(PartialCheckpointsTest, WhatWaitedInMemoryIsSavedAsItWas) {
  const JobConfig config = job(partial({"protection.experts_saved=2", "checkpoint.every_steps=1"}));
  const ClusterResult first = cluster_.run(config, [](TrainingRank& rank) -> absl::Status {
    for (int i = 0; i < 7; ++i) {
      RETURN_IF_ERROR(rank.steps(1));
      EXPECT_TRUE(rank.trainer().is_saved(rank.trainer().step()));
      RETURN_IF_ERROR(rank.trainer().save());
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(first.status.ok()) << first.status;
  const Manifest manifest = stored();
  const ClusterResult resumed =
      cluster_.run(config, [](TrainingRank&) { return absl::OkStatus(); });
  ASSERT_TRUE(resumed.status.ok()) << resumed.status;
  EXPECT_GT(manifest.position.step, Step(1));
  EXPECT_LT(manifest.position.step, Step(7)) << "the newest ones wait, or are not published yet";
  EXPECT_TRUE(is_mixed(manifest));
  EXPECT_EQ(expect_states(manifest, resumed, {})[manifest.position.step.value], 8);
}

// Three experts of a layer are copied to memory with each checkpoint, one is saved.
TEST_F(PartialCheckpointsTest, ImagesInMemoryHaveAgesOfTheirOwn) {
  const JobConfig config =
      job(partial({"protection.experts_saved=1", "protection.experts_in_memory=3"}));
  const ClusterResult back = cluster_.run(config, [](TrainingRank& rank) -> absl::Status {
    RETURN_IF_ERROR(train_to_commit(rank, 3));
    return rank.resume();
  });
  ASSERT_TRUE(back.status.ok()) << back.status;
  std::vector<ClusterResult> exact;
  for (const int step : {2, 4, 6}) exact.push_back(exact_state({}, step));
  std::vector<int> experts(3);
  for (const auto& [name, weights] : back.weights) {
    if (name.find(".expert.") == std::string::npos) {
      EXPECT_TRUE(has_state(back, exact[2], name)) << name;
      continue;
    }
    int found = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      if (!has_state(back, exact[i], name)) continue;
      ++found;
      ++experts[i];
    }
    EXPECT_EQ(found, 1) << name;
  }
  EXPECT_THAT(experts, testing::ElementsAre(8, 12, 12));
}

TEST_F(PartialCheckpointsTest, WithAllExpertsNothingIsLost) {
  const JobConfig config = job(partial({"protection.experts_saved=8"}));
  const auto body = [](TrainingRank& rank) { return train_to_commit(rank, 2); };
  ASSERT_TRUE(cluster_.run(config, body).status.ok());
  EXPECT_FALSE(is_mixed(stored()));
  const auto nothing = [](TrainingRank&) { return absl::OkStatus(); };
  EXPECT_EQ(cluster_.run(config, nothing).digest, exact_state({}, 4).digest);
}

TEST_F(PartialCheckpointsTest, TheLastCheckpointHasEverythingAndSaysWhatWasLost) {
  const JobConfig config = job(partial({"protection.experts_saved=1"}));
  const auto first = [](TrainingRank& rank) { return train_to_commit(rank, 2); };
  ASSERT_TRUE(cluster_.run(config, first).status.ok());
  const ClusterResult last = cluster_.run(config, [](TrainingRank& rank) -> absl::Status {
    RETURN_IF_ERROR(rank.steps(8));
    return rank.close();
  });
  ASSERT_TRUE(last.status.ok()) << last.status;
  const Manifest manifest = stored();
  EXPECT_EQ(manifest.position.step, Step(12));
  EXPECT_FALSE(is_mixed(manifest));
  int64_t lost = 0;
  for (const ManifestOperator& op : manifest.operators) lost += op.lost_tokens;
  EXPECT_GT(lost, 0);
}

}  // namespace
}  // namespace evermoe
