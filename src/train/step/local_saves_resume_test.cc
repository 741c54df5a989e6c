// A job that also saves to the disks of its own machines goes on from there, with the same bits,
// and from shared storage where they do not have it all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

class LocalSavesResumeTest : public ::testing::Test {
 protected:
  // Every rank is a node with a disk of its own.
  JobConfig config(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> settings = {
        "parallel.stages=2",
        "parallel.lanes=1",
        "train.steps=8",
        "train.micro_batches=2",
        "train.micro_batch_size=1",
        "checkpoint.every_steps=4",
        "checkpoint.local_every_steps=1",
        absl::StrCat("checkpoint.local_directory=", cluster_.directory(), "/disk-{node}")};
    settings.insert(settings.end(), more.begin(), more.end());
    return tiny_config("qwen-moe", settings);
  }

  // Saves as a member does, and ends without closing: as if all processes were killed.
  static absl::Status train_until(TrainingRank& rank, int64_t step) {
    while (rank.trainer().step().value < step) {
      RETURN_IF_ERROR(rank.steps(1));
      if (rank.trainer().is_saved(rank.trainer().step())) RETURN_IF_ERROR(rank.trainer().save());
    }
    return absl::OkStatus();
  }
  static absl::Status train_to_the_end(TrainingRank& rank) {
    RETURN_IF_ERROR(train_until(rank, 8));
    return rank.close();
  }
  ClusterResult train_until(int64_t step) const { return train_until(step, config()); }
  ClusterResult train_until(int64_t step, const JobConfig& config) const {
    return cluster_.run(config, [&](TrainingRank& rank) { return train_until(rank, step); });
  }
  // Another resumption of the same job, with a view of its own.
  ClusterResult resumes_until(int64_t step, View view, const JobConfig& config) {
    return cluster_.run_stateless(config, [&](TrainingRank& rank) -> absl::Status {
      rank.trainer().join_stage(view);
      RETURN_IF_ERROR(rank.resume());
      if (rank.rank() == Rank(0)) run_ = rank.trainer().run_origin();
      return train_until(rank, step);
    });
  }
  // What a process has that takes a lost one's place in the newest resumes_until().
  ClusterResult takes_place_at(int64_t step, const JobConfig& config) const {
    return cluster_.run_stateless(config, [&](TrainingRank& rank) {
      rank.trainer().take_run_origin(run_);
      return rank.restore_base(Step(step));
    });
  }

  // The end of a job that has no such disks: `first` until step 4 and `changed` from there on.
  static ClusterResult without_disks(JobConfig first, JobConfig changed) {
    const TrainingCluster cluster("local_saves_without");
    first.checkpoint.local_directory.clear();
    changed.checkpoint.local_directory.clear();
    const auto until = [&](const JobConfig& config, int64_t step) {
      return cluster.run(config, [&](TrainingRank& rank) { return train_until(rank, step); });
    };
    if (first == changed) return until(first, 8);
    const ClusterResult begun = until(first, 5);  // whose verdict publishes step 4
    return begun.status.ok() ? until(changed, 8) : begun;
  }

  // Where it goes on, and that it ends with the bits that it has without these disks.
  std::string goes_on(const JobConfig& changed) const {
    const ClusterResult expected = without_disks(config(), changed);
    EXPECT_TRUE(expected.status.ok()) << expected.status;
    std::string source;
    const ClusterResult resumed = cluster_.run_stateless(changed, [&](TrainingRank& rank) {
      const auto from = rank.resume_and_tell();
      if (rank.rank() == Rank(0)) source = from.value_or(from.status().ToString());
      RETURN_IF_ERROR(from.status());
      return train_until(rank, 8);
    });
    EXPECT_TRUE(resumed.status.ok()) << resumed.status;
    EXPECT_EQ(resumed.digest, expected.digest) << source;
    return source;
  }

  // The folder of a rank's saves.
  std::string saves_of(int rank) const {
    const std::string disk = absl::StrCat(cluster_.directory(), "/disk-", rank);
    const std::string job = real_files().list(disk).value().at(0);
    return absl::StrCat(disk, "/", job, "/rank-000", rank);
  }

  TrainingCluster cluster_{"local_saves"};
  RunOrigin run_;
};

TEST_F(LocalSavesResumeTest, FromTheNodesOwnDisksWhereTheyAreNewer) {
  ASSERT_TRUE(train_until(7).status.ok());
  // Of the last step nobody has been told yet that all have it.
  EXPECT_TRUE(real_files().exists(saves_of(0) + "/step-00000006"));
  EXPECT_TRUE(real_files().exists(saves_of(0) + "/step-00000007.tmp"));
  EXPECT_FALSE(real_files().exists(saves_of(0) + "/step-00000004")) << "keeps two";
  EXPECT_THAT(goes_on(config()), HasSubstr("rank-0000/step-00000006 (the nodes' own disks)"));
}

// All processes are lost when the last step is trained, or even saved: the next ones have nothing
// to do but to see that it is in shared storage.
TEST_F(LocalSavesResumeTest, AJobThatIsLostAtItsEndEnds) {
  for (const bool has_disks : {false, true}) {
    SCOPED_TRACE(has_disks);
    JobConfig job = config();
    if (!has_disks) job.checkpoint.local_directory.clear();
    ASSERT_TRUE(train_until(8, job).status.ok());
    const ClusterResult expected = without_disks(config(), config());
    for (int again = 0; again < 3; ++again) {
      const ClusterResult ended = cluster_.run_stateless(job, [](TrainingRank& rank) {
        const absl::Status resumed = rank.resume();
        return resumed.ok() ? train_to_the_end(rank) : resumed;
      });
      ASSERT_TRUE(ended.status.ok()) << ended.status;
      EXPECT_EQ(ended.digest, expected.digest);
      EXPECT_TRUE(real_files().exists(cluster_.directory() + "/checkpoints/step-00000008"));
    }
    std::filesystem::remove_all(cluster_.directory() + "/checkpoints");
  }
}

TEST_F(LocalSavesResumeTest, OneThatHasBeenToldIsEnough) {
  ASSERT_TRUE(train_until(7).status.ok());
  std::filesystem::rename(saves_of(1) + "/step-00000007.tmp", saves_of(1) + "/step-00000007");
  EXPECT_THAT(goes_on(config()), HasSubstr("rank-0000/step-00000007.tmp (the nodes' own disks)"));
}

TEST_F(LocalSavesResumeTest, ALostNodeSendsAllToSharedStorage) {
  ASSERT_TRUE(train_until(7).status.ok());
  std::filesystem::remove_all(cluster_.directory() + "/disk-1");
  EXPECT_THAT(goes_on(config()), HasSubstr("/checkpoints/step-00000004 (shared storage)"));
}

TEST_F(LocalSavesResumeTest, ADamagedPartSendsAllToTheNextOne) {
  ASSERT_TRUE(train_until(7).status.ok());
  const std::string path = saves_of(1) + "/step-00000006/rank-0001.safetensors";
  std::string bytes = read_file(real_files(), path, int64_t{1} << 30).value();
  bytes[bytes.size() / 2] ^= 1;
  ASSERT_TRUE(write_file_synced(real_files(), path, bytes).ok());
  EXPECT_THAT(goes_on(config()), HasSubstr("rank-0000/step-00000005 (the nodes' own disks)"));
}

TEST_F(LocalSavesResumeTest, AMissingFileSendsAllToTheNextOne) {
  ASSERT_TRUE(train_until(7).status.ok());
  std::filesystem::remove(saves_of(1) + "/step-00000006/rank-0001.safetensors");
  std::filesystem::remove(saves_of(0) + "/step-00000005/rank-0000.safetensors");
  EXPECT_THAT(goes_on(config()), HasSubstr("/checkpoints/step-00000004 (shared storage)"));
}

TEST_F(LocalSavesResumeTest, AnotherTopologyReadsSharedStorage) {
  ASSERT_TRUE(train_until(7).status.ok());
  EXPECT_THAT(goes_on(config({"parallel.stages=1", "parallel.lanes=2"})),
              HasSubstr("/checkpoints/step-00000004 (shared storage)"));
}

TEST_F(LocalSavesResumeTest, FuturesThatAreGivenUpAreRemoved) {
  ASSERT_TRUE(train_until(7).status.ok());
  std::filesystem::rename(cluster_.directory() + "/disk-1", cluster_.directory() + "/away");
  ASSERT_TRUE(train_until(5).status.ok());
  EXPECT_FALSE(real_files().exists(saves_of(0) + "/step-00000006"));
  EXPECT_FALSE(real_files().exists(saves_of(0) + "/step-00000007.tmp"));
}

TEST_F(LocalSavesResumeTest, DeletedCheckpointsAreABeginning) {
  ASSERT_TRUE(train_until(7).status.ok());
  std::filesystem::remove_all(cluster_.directory() + "/checkpoints");
  EXPECT_THAT(goes_on(config()), HasSubstr("initial state"));
}

TEST_F(LocalSavesResumeTest, OfOneStepTheNodesOwnDisksWithTheBitsOfSharedStorage) {
  ASSERT_TRUE(train_until(5).status.ok());  // whose verdict publishes and commits step 4
  EXPECT_THAT(goes_on(config()), HasSubstr("rank-0000/step-00000004 (the nodes' own disks)"));
}

TEST_F(LocalSavesResumeTest, OfOneStepSharedStorageIfItHasOtherBits) {
  ASSERT_TRUE(train_until(5).status.ok());
  const TrainingCluster cluster("local_saves_other");
  JobConfig other = config({"train.learning_rate=0.002"});
  other.checkpoint.local_directory.clear();
  const auto trained = cluster.run(other, [&](TrainingRank& rank) { return train_until(rank, 5); });
  ASSERT_TRUE(trained.status.ok()) << trained.status;
  const std::string step = "/checkpoints/step-00000004";
  std::filesystem::remove_all(cluster_.directory() + step);
  std::filesystem::copy(cluster.directory() + step, cluster_.directory() + step);
  std::string source;
  const ClusterResult resumed = cluster_.run_stateless(config(), [&](TrainingRank& rank) {
    const auto from = rank.resume_and_tell();
    if (rank.rank() == Rank(0)) source = from.value_or("");
    return from.status();
  });
  ASSERT_TRUE(resumed.status.ok()) << resumed.status;
  EXPECT_THAT(source, HasSubstr(step + " (shared storage)"));
}

TEST_F(LocalSavesResumeTest, AProcessThatTakesAPlaceOnTheSameNodeReadsItsDisk) {
  ASSERT_TRUE(train_until(7).status.ok());
  const ClusterResult six = resumes_until(6, View(2), config());
  ASSERT_TRUE(six.status.ok()) << six.status;
  const ClusterResult base = takes_place_at(6, config());
  ASSERT_TRUE(base.status.ok()) << base.status;
  EXPECT_EQ(base.digest, six.digest);
}

TEST_F(LocalSavesResumeTest, AProcessThatTakesAPlaceReadsNoSaveThatWasNotAgreedOn) {
  const std::string lost = cluster_.directory() + "/disk-1", away = cluster_.directory() + "/away";
  cluster_.set_term({1, "a host", "a job", 0});
  ASSERT_TRUE(train_until(5).status.ok());
  std::filesystem::rename(lost, away);
  std::filesystem::remove_all(cluster_.directory() + "/checkpoints/step-00000004");
  // What another job makes of these steps has other bits.
  cluster_.set_term({2, "another host", "another job", 0});
  const JobConfig other = config({"train.learning_rate=0.002"});
  const ClusterResult four = train_until(4, other);
  ASSERT_TRUE(four.status.ok()) << four.status;
  ASSERT_TRUE(resumes_until(5, View(2), other).status.ok());
  std::filesystem::remove_all(lost);
  std::filesystem::rename(away, lost);
  ASSERT_TRUE(real_files().exists(saves_of(1) + "/step-00000004"));
  const ClusterResult base = takes_place_at(4, other);
  ASSERT_TRUE(base.status.ok()) << base.status;
  EXPECT_EQ(base.digest, four.digest);
}

// A machine that was away has step 5 of one run of the job, the others that of the next run, which
// has other bits; and in shared storage is neither.
TEST_F(LocalSavesResumeTest, SavesOfTwoRunsOfAJobAreNeverOneState) {
  const std::string lost = cluster_.directory() + "/disk-1", away = cluster_.directory() + "/away";
  const JobConfig other = config({"train.learning_rate=0.002"});
  cluster_.set_term({1, "a host", "a job", 0});
  ASSERT_TRUE(resumes_until(6, View(1), config()).status.ok());
  std::filesystem::rename(lost, away);
  ASSERT_TRUE(resumes_until(6, View(2), other).status.ok());  // from step 4
  const ClusterResult five = resumes_until(5, View(3), other);
  ASSERT_TRUE(five.status.ok()) << five.status;
  ASSERT_NE(run_.own_saves, Fingerprint{}) << "it went on from the nodes' own disks";
  EXPECT_EQ(takes_place_at(5, other).digest, five.digest);
  std::filesystem::remove_all(lost);
  std::filesystem::rename(away, lost);
  ASSERT_TRUE(real_files().exists(saves_of(1) + "/step-00000005"));
  EXPECT_TRUE(absl::IsNotFound(takes_place_at(5, other).status)) << "nobody has its part";
  ASSERT_TRUE(resumes_until(5, View(4), other).status.ok());
  EXPECT_EQ(run_.own_saves, Fingerprint{}) << "it went on from shared storage";
}

TEST_F(LocalSavesResumeTest, OneWhoseSharedStorageIsOutSavesOnItsOwnDisk) {
  ASSERT_TRUE(train_until(7).status.ok());
  const std::string checkpoints = cluster_.directory() + "/checkpoints";
  const JobConfig rarely = config({"checkpoint.every_steps=100", "train.steps=100"});
  ASSERT_TRUE(resumes_until(6, View(2), rarely).status.ok());
  const ClusterResult result =
      cluster_.run_stateless(rarely, [&](TrainingRank& rank) -> absl::Status {
        rank.trainer().take_run_origin(run_);
        RETURN_IF_ERROR(rank.restore_base(Step(6)));
        RETURN_IF_ERROR(rank.steps(1));  // all have restored
        if (rank.rank() == Rank(0)) {
          std::filesystem::remove_all(checkpoints);
          RETURN_IF_ERROR(write_file_synced(real_files(), checkpoints, "not a folder"));
        }
        RETURN_IF_ERROR(rank.steps(2));
        return rank.trainer().save();
      });
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_TRUE(real_files().exists(saves_of(0) + "/step-00000009.tmp"));
}

TEST_F(LocalSavesResumeTest, ADiskThatCannotBeUsedIsToldAndOutlived) {
  std::vector<std::string> told;
  std::mutex mutex;
  cluster_.set_save_failed([&](Step, const absl::Status& why) {
    const std::lock_guard lock(mutex);
    told.push_back(std::string(why.message()));
  });
  ASSERT_TRUE(
      write_file_synced(real_files(), cluster_.directory() + "/disk-1", "not a folder").ok());
  const ClusterResult result = train_until(8);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(told, ::testing::Contains(HasSubstr("disk-1")));
  EXPECT_TRUE(real_files().exists(cluster_.directory() + "/checkpoints/step-00000004"));
}

}  // namespace
}  // namespace evermoe
