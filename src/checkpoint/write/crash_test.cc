// What is on the disk after a save dies or fails at each of its file operations.
//
// Method: a child process saves through FaultyFiles, which kills it at operation n; the parent then
// looks, repairs and goes on. n runs over all operations until a save gets through. Errors of the
// disk (ENOSPC, EDQUOT, ESTALE, EIO) are injected the same way, without a child.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "checkpoint/fake_state_testing.h"
#include "checkpoint/format/checkpoint_names.h"
#include "env/faulty_files.h"

namespace evermoe {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kOperationsMax = 1000;
// A killed process leaves the same names and bytes there as on a disk, and syncing takes no time.
constexpr char kMemoryFolder[] = "/dev/shm";

struct CrashCase {
  const char* name;
  FileFault fault;
  Step step;         // what is saved over a complete step 1
  bool no_exchange;  // the file system cannot swap names
};

class CrashTest : public ::testing::TestWithParam<CrashCase> {
 protected:
  CrashTest() {
    old_.seed = 1;
    new_.seed = 2;
    next_.seed = 3;
  }

  SaverOptions options(const ScratchFolder& folder) const {
    SaverOptions result;
    result.directory = folder.path();
    result.world_size = 2;
    result.compute_type = ElementType::kBf16;
    result.keep_newest = 1;  // removing the old one is part of the game
    result.keep_best = 0;
    result.block_bytes = 8192;
    return result;
  }

  absl::Status save(Files& files, const ScratchFolder& folder, const FakeState& state,
                    Step step) const {
    auto job = FakeJob::open(files, options(folder));
    return job.ok() ? (*job)->save(state, step) : job.status();
  }

  // Saves in a child process; true if it got through.
  bool survives(const FileFaultPlan& plan, const ScratchFolder& folder, Step step) const {
    const pid_t child = ::fork();
    if (child == 0) {
      FaultyFiles faulty(real_files(), plan);
      ::_exit(save(faulty, folder, new_, step).ok() ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0) << "the save failed instead of dying";
      return true;
    }
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    return false;
  }

  // The newest checkpoint is complete and is the old or the new one; returns whether the new one.
  bool new_one_is_there(const ScratchFolder& folder, Step step) const {
    const GoodCheckpoint found =
        open_newest_good(real_files(), folder.path(), /*verify_contents=*/true);
    EXPECT_THAT(found.skipped, ElementsAre()) << "a half checkpoint is visible";
    if (found.reader == nullptr) {
      ADD_FAILURE() << "no checkpoint is left";
      return false;
    }
    const Fingerprint digest = found.reader->digest().value();
    EXPECT_THAT(digest, AnyOf(old_.digest(Step(1)), new_.digest(step)));
    EXPECT_TRUE(CheckpointReader::open(real_files(), folder.at("latest")).ok());
    return digest == new_.digest(step);
  }

  void goes_on(const ScratchFolder& folder) const {
    const absl::Status saved = save(real_files(), folder, next_, Step(3));
    ASSERT_TRUE(saved.ok()) << saved;
    EXPECT_EQ(CheckpointReader::open(real_files(), folder.path()).value()->digest().value(),
              next_.digest(Step(3)));
    EXPECT_THAT(real_files().list(folder.path()).value(), ElementsAre("latest", "step-00000003"));
  }

  FakeState old_;
  FakeState new_;
  FakeState next_;
};

TEST_P(CrashTest, TheNewestCompleteCheckpointAlwaysLoads) {
  const CrashCase& game = GetParam();
  int old_seen = 0;
  int new_seen = 0;
  bool done = false;
  for (int64_t n = 0; n < kOperationsMax && !done; ++n) {
    SCOPED_TRACE(absl::StrCat("killed at file operation ", n));
    const ScratchFolder folder(kMemoryFolder);
    ASSERT_TRUE(save(real_files(), folder, old_, Step(1)).ok());
    done = survives({.fault = game.fault, .first = n, .no_exchange = game.no_exchange}, folder,
                    game.step);
    const bool is_new = new_one_is_there(folder, game.step);
    if (done) {
      EXPECT_TRUE(is_new);
    }
    if (new_seen > 0) {
      EXPECT_TRUE(is_new) << "published earlier than before";
    }
    ++(is_new ? new_seen : old_seen);
    goes_on(folder);
    if (HasFailure()) return;
  }
  EXPECT_TRUE(done) << "more operations than expected";
  EXPECT_GT(old_seen, 15);
  EXPECT_GT(new_seen, 5) << "crashes after publishing were not reached";
}

INSTANTIATE_TEST_SUITE_P(
    , CrashTest,
    ::testing::Values(CrashCase{"KillNextStep", FileFault::kKill, Step(2), false},
                      CrashCase{"TearNextStep", FileFault::kTear, Step(2), false},
                      CrashCase{"KillSameStep", FileFault::kKill, Step(1), false},
                      CrashCase{"TearSameStep", FileFault::kTear, Step(1), false},
                      CrashCase{"KillSameStepWithoutExchange", FileFault::kKill, Step(1), true},
                      CrashCase{"TearSameStepWithoutExchange", FileFault::kTear, Step(1), true}),
    [](const auto& info) { return info.param.name; });

using CrashInRecoveryTest = CrashTest;

// Dies between the two renames, then again at each operation of the next run.
TEST_F(CrashInRecoveryTest, RecoveryMayDieToo) {
  int64_t between = -1;
  for (int64_t n = 0; between < 0; ++n) {
    ASSERT_LT(n, kOperationsMax);
    const ScratchFolder folder(kMemoryFolder);
    ASSERT_TRUE(save(real_files(), folder, old_, Step(1)).ok());
    ASSERT_FALSE(
        survives({.fault = FileFault::kKill, .first = n, .no_exchange = true}, folder, Step(1)));
    if (!real_files().exists(folder.at("step-00000001"))) between = n;
  }
  bool done = false;
  for (int64_t m = 0; m < kOperationsMax && !done; ++m) {
    SCOPED_TRACE(absl::StrCat("killed again at file operation ", m));
    const ScratchFolder folder(kMemoryFolder);
    ASSERT_TRUE(save(real_files(), folder, old_, Step(1)).ok());
    ASSERT_FALSE(survives({.fault = FileFault::kKill, .first = between, .no_exchange = true},
                          folder, Step(1)));
    EXPECT_FALSE(new_one_is_there(folder, Step(1)));
    done = survives({.fault = FileFault::kKill, .first = m, .no_exchange = true}, folder, Step(2));
    new_one_is_there(folder, Step(2));
    goes_on(folder);
    if (HasFailure()) return;
  }
  EXPECT_TRUE(done);
}

class DiskErrorTest : public CrashTest {
 protected:
  static absl::StatusCode code_of(FileFault fault) {
    const bool is_full = fault == FileFault::kNoSpace || fault == FileFault::kQuota;
    return is_full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal;
  }
  static std::string reason_of(FileFault fault) {
    switch (fault) {
      case FileFault::kNoSpace: return "No space left on device (";
      case FileFault::kQuota: return "Disk quota exceeded (";
      case FileFault::kStale: return "Stale file handle (";
      default: return "Input/output error";
    }
  }

  // One operation fails; the same job then saves the next step.
  void fires(FileFault fault, Step step, bool stays) {
    bool done = false;
    for (int64_t n = 0; n < kOperationsMax && !done; ++n) {
      SCOPED_TRACE(absl::StrCat("file operation ", n, " fails"));
      const ScratchFolder folder(kMemoryFolder);
      ASSERT_TRUE(save(real_files(), folder, old_, Step(1)).ok());
      FaultyFiles faulty(
          real_files(),
          {.fault = fault, .first = n, .last = stays ? std::numeric_limits<int64_t>::max() : n});
      const absl::Status saved = save(faulty, folder, new_, step);
      done = faulty.fault_count() == 0;
      EXPECT_EQ(saved.ok(), done) << saved;
      if (!done) {
        EXPECT_EQ(saved.code(), code_of(fault)) << saved;
        EXPECT_THAT(std::string(saved.message()), HasSubstr(reason_of(fault)));
        EXPECT_THAT(std::string(saved.message()), HasSubstr(folder.path())) << "which file?";
      }
      new_one_is_there(folder, step);
      goes_on(folder);
      if (HasFailure()) return;
    }
    EXPECT_TRUE(done);
  }
};

TEST_F(DiskErrorTest, FullDiskForAMoment) { fires(FileFault::kNoSpace, Step(2), false); }
TEST_F(DiskErrorTest, FullDiskForGood) { fires(FileFault::kNoSpace, Step(2), true); }
TEST_F(DiskErrorTest, UsedUpQuotaForAMoment) { fires(FileFault::kQuota, Step(2), false); }
TEST_F(DiskErrorTest, UsedUpQuotaForGood) { fires(FileFault::kQuota, Step(2), true); }
TEST_F(DiskErrorTest, StaleHandleForAMoment) { fires(FileFault::kStale, Step(2), false); }
TEST_F(DiskErrorTest, StaleHandleForGood) { fires(FileFault::kStale, Step(2), true); }
TEST_F(DiskErrorTest, StaleHandleWhileReplacing) { fires(FileFault::kStale, Step(1), false); }
TEST_F(DiskErrorTest, ReadOrWriteError) { fires(FileFault::kIoError, Step(2), false); }
TEST_F(DiskErrorTest, ReadOrWriteErrorWhileReplacing) {
  fires(FileFault::kIoError, Step(1), false);
}

// The same job goes on after an error.
class GoesOnTest : public DiskErrorTest {
 protected:
  void goes_on_after(FileFault fault);
};

void GoesOnTest::goes_on_after(FileFault fault) {
  bool done = false;
  for (int64_t n = 0; n < kOperationsMax && !done; ++n) {
    SCOPED_TRACE(absl::StrCat("file operation ", n, " fails"));
    const ScratchFolder folder(kMemoryFolder);
    // Opening and step 1 must succeed: the fault comes after them.
    FaultyFiles counting(real_files(), {});
    { ASSERT_TRUE(save(counting, folder, old_, Step(1)).ok()); }
    ASSERT_TRUE(remove_tree(real_files(), folder.path()).ok());
    const int64_t at = counting.operation_count() + n;
    FaultyFiles faulty(real_files(), {.fault = fault, .first = at, .last = at});
    auto job = FakeJob::open(faulty, options(folder)).value();
    ASSERT_TRUE(job->save(old_, Step(1)).ok());
    const absl::Status failed = job->save(new_, Step(2));
    done = failed.ok();
    EXPECT_EQ(done, faulty.fault_count() == 0);
    new_one_is_there(folder, Step(2));
    if (done) break;
    const absl::Status again = job->save(new_, Step(2));
    ASSERT_TRUE(again.ok()) << again;
    EXPECT_TRUE(new_one_is_there(folder, Step(2)));
    ASSERT_TRUE(job->save(next_, Step(3)).ok());
    EXPECT_THAT(real_files().list(folder.path()).value(), ElementsAre("latest", "step-00000003"));
    if (HasFailure()) return;
  }
  EXPECT_TRUE(done);
}

TEST_F(GoesOnTest, AfterAFullDisk) { goes_on_after(FileFault::kNoSpace); }
TEST_F(GoesOnTest, AfterAUsedUpQuota) { goes_on_after(FileFault::kQuota); }
TEST_F(GoesOnTest, AfterAStaleHandle) { goes_on_after(FileFault::kStale); }

}  // namespace
}  // namespace evermoe
