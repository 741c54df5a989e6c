// A failed save is not a failed step: training goes on, and people are told at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "env/faulty_files.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

struct RefusedCase {
  const char* name;
  FileFault fault;
  const char* reason;
};

class FailedSavesTest : public testing::TestWithParam<RefusedCase> {
 protected:
  FailedSavesTest() {
    cluster_.set_save_failed([this](Step step, const absl::Status& why) {
      told_.emplace_back(step, std::string(why.message()));
    });
  }

  // Saves after two steps and after three, over files of which `plan` fails; `before_first`:
  // operations before the first save.
  ClusterResult train(const FileFaultPlan& plan, int64_t* before_first = nullptr) {
    FaultyFiles files(real_files(), plan);
    cluster_.set_files(files);
    const JobConfig config = tiny_config("qwen-moe", {"parallel.stages=1", "parallel.lanes=1"});
    return cluster_.run(config, [&](TrainingRank& rank) -> absl::Status {
      RETURN_IF_ERROR(rank.steps(2));
      if (before_first != nullptr) *before_first = files.operation_count();
      RETURN_IF_ERROR(rank.trainer().save());
      RETURN_IF_ERROR(rank.steps(1));
      RETURN_IF_ERROR(rank.trainer().save());
      return rank.close();
    });
  }

  TrainingCluster cluster_{"failed_saves"};
  std::vector<std::pair<Step, std::string>> told_;
};

TEST_P(FailedSavesTest, TrainingGoesOnAndTheReasonIsTold) {
  int64_t at = 0;
  const ClusterResult expected = train({}, &at);
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  EXPECT_THAT(told_, IsEmpty());
  ASSERT_TRUE(remove_tree(real_files(), cluster_.directory() + "/checkpoints").ok());
  const ClusterResult refused = train({.fault = GetParam().fault, .first = at, .last = at});
  ASSERT_TRUE(refused.status.ok()) << refused.status;
  EXPECT_THAT(told_, ElementsAre(Pair(Step(2), HasSubstr(GetParam().reason))));
  EXPECT_EQ(refused.digest, expected.digest);
  EXPECT_TRUE(real_files().exists(cluster_.directory() + "/checkpoints/step-00000003"))
      << "the next one is saved";
  EXPECT_FALSE(real_files().exists(cluster_.directory() + "/checkpoints/step-00000002.tmp"));
}

INSTANTIATE_TEST_SUITE_P(
    , FailedSavesTest,
    testing::Values(RefusedCase{"FullDisk", FileFault::kNoSpace, "No space left on device"},
                    RefusedCase{"UsedUpQuota", FileFault::kQuota, "Disk quota exceeded"},
                    RefusedCase{"StaleHandle", FileFault::kStale, "Stale file handle"},
                    RefusedCase{"ReadOrWriteError", FileFault::kIoError, "Input/output error"}),
    [](const auto& info) { return info.param.name; });

// A save is due after the eighth step, and the last state is saved whatever is under way.
TEST(PacedSavesTest, TheLastSaveMayBeDueWhileTheOneBeforeIsWritten) {
  TrainingCluster cluster("paced_saves");
  FaultyFiles slow(real_files(), {.delay = absl::Milliseconds(20)});
  cluster.set_files(slow);
  cluster.write_behind();
  const ClusterResult result =
      cluster.run_job(tiny_config("qwen-moe", {"parallel.stages=1", "parallel.lanes=1",
                                               "train.steps=9", "protection.strategy=checkfreq"}));
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_TRUE(real_files().exists(cluster.directory() + "/checkpoints/step-00000009"));
}

}  // namespace
}  // namespace evermoe
