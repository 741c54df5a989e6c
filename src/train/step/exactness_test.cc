// The promise: same configuration, same bits, on every run, under every delivery order, and after
// every restart; and a checkpoint is the same state in every topology.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "checkpoint/write/monitor.h"
#include "config/job_topology.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

JobConfig job(const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {
      "train.micro_batches=5",    "train.micro_batch_size=1", "train.steps=6",
      "model.sequence_length=16", "checkpoint.every_steps=2", "checkpoint.keep_newest=10",
      "evaluate.every_steps=3",   "evaluate.micro_batches=3", "parallel.stages=2",
      "parallel.lanes=2"};
  settings.insert(settings.end(), more.begin(), more.end());
  return tiny_config("qwen-moe", settings);
}

ClusterResult undisturbed(const JobConfig& config, uint64_t seed = 0) {
  return TrainingCluster("undisturbed").run_job(config, {.seed = seed});
}

std::string stored_digest(const std::string& directory) {
  const auto reader = CheckpointReader::open(real_files(), directory + "/checkpoints");
  CHECK_OK(reader.status());
  const auto problems = (*reader)->verify();
  CHECK(problems.empty()) << problems.front();
  const auto digest = (*reader)->digest();
  CHECK_OK(digest.status());
  return to_hex(*digest);
}

// Of the ranks that wrote it.
std::string stored_topology(const std::string& directory) {
  const auto reader = CheckpointReader::open(real_files(), directory + "/checkpoints");
  CHECK_OK(reader.status());
  return (*reader)->manifest().topology;
}

TEST(ExactnessTest, SameBitsUnderEveryDeliveryOrder) {
  const JobConfig config = job();
  const ClusterResult first = undisturbed(config, 1);
  ASSERT_TRUE(first.status.ok()) << first.status;
  for (uint64_t seed = 2; seed < 8; ++seed) {
    const ClusterResult other = undisturbed(config, seed);
    ASSERT_TRUE(other.status.ok()) << other.status;
    EXPECT_NE(other.transcript, first.transcript) << "the seed changed nothing";
    EXPECT_EQ(other.digest, first.digest) << "seed " << seed;
  }
}

class PrecisionTest : public testing::TestWithParam<std::string> {};

TEST_P(PrecisionTest, SameBitsHoweverManyGradientsArePutOff) {
  const auto with = [&](const std::string& bytes, const std::string& lanes) {
    return undisturbed(
        job(with_types(GetParam(), {"train.deferred_bytes=" + bytes, "parallel.lanes=" + lanes})));
  };
  for (const std::string lanes : {"2", "[3, 2]"}) {
    const ClusterResult at_once = with("0B", lanes);
    ASSERT_TRUE(at_once.status.ok()) << at_once.status;
    for (const std::string bytes : {"20KiB", "256MiB"}) {
      const ClusterResult later = with(bytes, lanes);
      ASSERT_TRUE(later.status.ok()) << later.status;
      EXPECT_NE(later.transcript, at_once.transcript) << "nothing was put off";
      EXPECT_EQ(later.digest, at_once.digest) << bytes << ", lanes " << lanes;
    }
  }
}

TEST(ExactnessTest, AnotherSeedOfTrainingGivesOtherBits) {
  EXPECT_NE(undisturbed(job()).digest, undisturbed(job({"train.seed=2"})).digest);
}

TEST_P(PrecisionTest, ResumedRunEqualsUndisturbedRun) {
  const JobConfig config = job(with_types(GetParam(), {}));
  const ClusterResult expected = undisturbed(config);
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  TrainingCluster cluster("resumed");
  // The first process life ends after step 5, whose verdict has published the checkpoint of step 4.
  const ClusterResult broken = cluster.run(config, [&](TrainingRank& rank) -> absl::Status {
    RETURN_IF_ERROR(rank.steps(4));
    RETURN_IF_ERROR(rank.trainer().save());
    return rank.steps(1);
  });
  ASSERT_TRUE(broken.status.ok()) << broken.status;
  EXPECT_NE(broken.digest, expected.digest);
  const ClusterResult resumed = cluster.run_job(config);
  ASSERT_TRUE(resumed.status.ok()) << resumed.status;
  EXPECT_EQ(resumed.resumed_from, Step(4));
  EXPECT_EQ(resumed.digest, expected.digest);
}
INSTANTIATE_TEST_SUITE_P(All, PrecisionTest, testing::ValuesIn(all_types()),
                         [](const auto& info) { return types_name(info.param); });

// Copying waits for the next update, but not for long: that waits for the copy.
TEST(ExactnessTest, ASaveCopiedBehindTrainingHasTheStateOfItsStep) {
  const JobConfig config = job({"train.steps=100", "protection.strategy=checkfreq"});
  TrainingCluster at_once("at_once"), behind("behind");
  const ClusterResult expected = at_once.run(config, [](TrainingRank& rank) -> absl::Status {
    RETURN_IF_ERROR(rank.steps(3));
    return rank.close();
  });
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  behind.write_behind();
  Monitor monitor;
  int updates = 0;
  arm_fault_points([&](const char* point, int64_t) {
    Monitor::Lock lock(monitor);
    if (std::string_view(point) == "step/updated") ++updates;
    if (std::string_view(point) == "save/copying")
      lock.wait(absl::Milliseconds(20), [&, before = updates] { return updates > before; });
  });
  const ClusterResult result = behind.run(config, [](TrainingRank& rank) -> absl::Status {
    RETURN_IF_ERROR(rank.steps(3));
    RETURN_IF_ERROR(rank.trainer().save());
    while (rank.trainer().last_record().prepared < Step(3)) RETURN_IF_ERROR(rank.steps(1));
    return absl::OkStatus();
  });
  arm_fault_points(nullptr);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_NE(result.digest, expected.digest) << "no step was made meanwhile";
  EXPECT_EQ(stored_digest(behind.directory()), stored_digest(at_once.directory()));
}

TEST(ExactnessTest, HoweverOftenIsSavedTheBitsAreTheSame) {
  TrainingCluster cluster("checkfreq");
  const JobConfig config = job({"train.steps=12", "protection.strategy=checkfreq",
                                "protection.overhead_budget=1", "checkpoint.every_steps=0"});
  const ClusterResult tuned = cluster.run_job(config);
  ASSERT_TRUE(tuned.status.ok()) << tuned.status;
  EXPECT_EQ(tuned.digest, undisturbed(job({"train.steps=12"})).digest);
  const auto saved = list_checkpoints(real_files(), cluster.directory() + "/checkpoints");
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_GE(saved->size(), 2) << "only the last state was saved";
}

TEST(ExactnessTest, AKilledRankNeverChangesTheBitsOfTheResumedRun) {
  const JobConfig config = job();
  const ClusterResult expected = undisturbed(config);
  std::set<Step> resumed_from;
  for (int trial = 0; trial < 6; ++trial) {
    TrainingCluster cluster("killed");
    TrainingJobOptions options{.seed = static_cast<uint64_t>(trial)};
    options.kills.push_back({Rank(trial % 4), expected.duration * (2 * trial + 1) / 13});
    const ClusterResult killed = cluster.run_job(config, options);
    EXPECT_FALSE(killed.status.ok()) << "the kill came too late";
    const ClusterResult resumed = cluster.run_job(config);
    ASSERT_TRUE(resumed.status.ok()) << resumed.status;
    EXPECT_EQ(resumed.digest, expected.digest) << "trial " << trial;
    resumed_from.insert(resumed.resumed_from);
  }
  EXPECT_GT(resumed_from.size(), 1u) << "killed in one part of the run only";
}

TEST(ExactnessTest, CheckpointsSurviveEveryTopology) {
  TrainingCluster cluster("reshape");
  const auto in_topology = [&](const std::vector<std::string>& topology) {
    std::vector<std::string> settings = topology;
    settings.push_back("model.layers=4");
    return job(settings);
  };
  const JobConfig first = in_topology({"parallel.stages=1", "parallel.lanes=1"});
  ClusterResult result = cluster.run(first, [&](TrainingRank& rank) -> absl::Status {
    RETURN_IF_ERROR(rank.steps(2));
    return rank.close();
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  const std::string digest = stored_digest(cluster.directory());
  const std::string trained = result.digest;
  for (const std::vector<std::string>& topology :
       {std::vector<std::string>{"parallel.stages=2", "parallel.lanes=4"},
        std::vector<std::string>{"parallel.stages=4", "parallel.lanes=2"},
        std::vector<std::string>{"parallel.stages=3", "parallel.lanes=1"},
        std::vector<std::string>{"parallel.stages=2", "parallel.lanes=[3, 2]",
                                 "parallel.expert_replicas=2"},
        std::vector<std::string>{"parallel.stages=1", "parallel.lanes=1"}}) {
    const JobConfig config = in_topology(topology);
    result = cluster.run_stateless(config, [&](TrainingRank& rank) -> absl::Status {
      RETURN_IF_ERROR(rank.restore_base(Step(2)));
      return rank.close();  // over the one it came from
    });
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.digest, trained) << topology[0] << " " << topology[1];
    EXPECT_EQ(stored_digest(cluster.directory()), digest) << topology[0] << " " << topology[1];
    EXPECT_EQ(stored_topology(cluster.directory()), topology_of(config).to_string());
  }
}

TEST(ExactnessTest, Fp16SkipsStepsThatOverflowAndHalvesTheScale) {
  const JobConfig config = job({"train.precision=fp16", "train.initial_loss_scale=16777216"});
  TrainingCluster cluster("overflow");
  std::atomic<int> skipped = 0;
  const ClusterResult result = cluster.run(config, [&](TrainingRank& rank) -> absl::Status {
    for (int i = 0; i < 6; ++i) {
      RETURN_IF_ERROR(rank.steps(1));
      if (!rank.trainer().last_record().applied) ++skipped;
    }
    const TrainingPosition& position = rank.trainer().training_position();
    CHECK(position.loss_scale < 16777216);
    CHECK(position.updates_applied < position.step.value);
    return absl::OkStatus();
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_GT(skipped, 0);
}

TEST(ExactnessTest, ADifferentModelIsRefusedByName) {
  TrainingCluster cluster("identity");
  const auto save = [](TrainingRank& rank) { return rank.close(); };
  ASSERT_TRUE(cluster.run(job(), save).status.ok());
  const ClusterResult other = cluster.run(job({"model.top_k=1"}), save);
  EXPECT_TRUE(absl::IsInvalidArgument(other.status)) << other.status;
  EXPECT_THAT(std::string(other.status.message()), testing::HasSubstr("top_k"));
}

}  // namespace
}  // namespace evermoe
