#include "train/sandbox/sandbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/job_data.h"
#include "train/sandbox/sandbox_files.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;

TEST(SandboxTest, RolesAreOfOneKindWhereTheirStagesAreAlike) {
  const auto kinds = [](const std::vector<std::string>& settings) {
    return roles_by_kind(tiny_config("qwen-moe", settings));
  };
  EXPECT_THAT(kinds({"parallel.stages=1", "parallel.lanes=2"}), ElementsAre(Rank(0)));
  EXPECT_THAT(kinds({"model.layers=4", "parallel.stages=4", "parallel.lanes=2"}),
              ElementsAre(Rank(0), Rank(2), Rank(6)))
      << "the second stage is as the third";
  EXPECT_THAT(kinds({"model.layers=4", "parallel.stages=4", "parallel.lanes=[2, 1, 2, 2]"}),
              ElementsAre(Rank(0), Rank(2), Rank(3), Rank(5)))
      << "another width is another kind";
}

TEST(SandboxTest, OfSomeRolesTheKindsAreThoseThatTheyAreOf) {
  const JobConfig config =
      tiny_config("qwen-moe", {"model.layers=4", "parallel.stages=4", "parallel.lanes=2"});
  EXPECT_THAT(roles_by_kind(config, {Rank(5), Rank(3), Rank(7)}), ElementsAre(Rank(3), Rank(7)))
      << "the third stage is as the second";
}

TEST(SandboxTest, LongStepsTakeNoLongerThere) {
  const auto micro_batches = [](const std::string& of_job, Rank role) {
    return sandbox_micro_batches(
        tiny_config("qwen-moe", {"parallel.stages=2", "parallel.lanes=2", of_job}), role);
  };
  EXPECT_EQ(micro_batches("train.micro_batches=64", Rank(0)), 6) << "two rounds are on their way";
  EXPECT_EQ(micro_batches("train.micro_batches=64", Rank(2)), 4);
  EXPECT_EQ(micro_batches("train.micro_batches=3", Rank(0)), 3) << "the whole step";
}

class EveryKind : public testing::TestWithParam<std::vector<std::string>> {};

// Of every kind, whatever the job is: nothing else is there, and files would be a CHECK.
TEST_P(EveryKind, AreWholeSteps) {
  const JobConfig config = tiny_config("qwen-moe", GetParam());
  const TrainingCluster cluster("sandbox");
  for (const Rank role : roles_by_kind(config)) {
    const auto steps = run_in_sandbox(config, cluster.tokens(), c10::kCPU, role);
    ASSERT_TRUE(steps.ok()) << role << ": " << steps.status();
    EXPECT_GT(steps->second, absl::ZeroDuration());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, EveryKind,
    testing::Values(
        std::vector<std::string>{"parallel.stages=1", "parallel.lanes=1"},
        std::vector<std::string>{"parallel.stages=2", "parallel.lanes=[2, 3]"},
        std::vector<std::string>{"parallel.stages=1", "parallel.lanes=4",
                                 "parallel.expert_replicas=2"},
        std::vector<std::string>{"parallel.stages=2", "parallel.lanes=2", "train.precision=bf16",
                                 "train.moments=fp8+fp16", "train.master=bf16"},
        std::vector<std::string>{"parallel.stages=2", "parallel.lanes=2", "train.precision=fp16",
                                 "protection.strategy=partial-experts"},
        std::vector<std::string>{"parallel.stages=2", "parallel.lanes=2",
                                 "protection.strategy=gradients", "experts.replicas=by-load",
                                 "train.non_finite=quarantine"}));

// A job whose processes have computed for nothing before ends with the bits of any other.
TEST(SandboxTest, NothingOfItStays) {
  const JobConfig config = tiny_config("qwen-moe", {"parallel.stages=2", "parallel.lanes=2"});
  const auto train = [](TrainingRank& rank) { return rank.steps(2); };
  TrainingCluster before("before"), after("after");
  const ClusterResult expected = before.run(config, train);
  for (const Rank role : roles_by_kind(config))
    ASSERT_TRUE(run_in_sandbox(config, before.tokens(), c10::kCPU, role).ok());
  const ClusterResult result = after.run(config, train);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.digest, expected.digest);
}

TEST(SandboxTest, FilesAreRefused) {
  SandboxFiles files;
  EXPECT_DEATH(files.exists("/a"), "a sandbox touches /a");
}

}  // namespace
}  // namespace evermoe
