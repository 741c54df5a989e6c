// Partial saves that die at each of their file operations: what a reader may open is one history.
//
// As crash_test.cc, over a chain of partial checkpoints of which each needs the one before, with
// retention that removes what the newest does not need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "checkpoint/fake_state_testing.h"
#include "env/faulty_files.h"

namespace evermoe {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kPartialOperationsMax = 1000;
constexpr char kFirst[] = "layer.0.expert.0";
constexpr char kSecond[] = "layer.0.expert.1";

struct PartialCrashCase {
  const char* name;
  FileFault fault;
  Step step;  // what is saved on top of step 2, which is partial too
  bool no_exchange;
};

// The state of seed `seed`, but for one expert of seed `older`.
FakeState mixture(uint64_t seed, const char* expert, uint64_t older) {
  FakeState state;
  state.seed = seed;
  state.seeds = {{expert, older}};
  return state;
}

class PartialCrashTest : public ::testing::TestWithParam<PartialCrashCase> {
 protected:
  SaverOptions options() const {
    SaverOptions result;
    result.directory = folder_.path();
    result.world_size = 2;
    result.compute_type = ElementType::kBf16;
    result.keep_newest = 1;
    result.keep_best = 0;
    result.block_bytes = 8192;
    return result;
  }

  // Step 1 whole, and step 2 with the second expert of step 1.
  void save_chain() {
    ASSERT_TRUE(remove_tree(real_files(), folder_.path()).ok());
    auto job = FakeJob::open(real_files(), options()).value();
    ASSERT_TRUE(job->save(mixture(1, kFirst, 1), Step(1)).ok());
    ASSERT_TRUE(job->save_partial(mixture(2, kSecond, 1), Step(2), {Step(1), {kSecond}}).ok());
    ASSERT_EQ(digest(Step(2)), mixture(2, kSecond, 1).digest(Step(2)));
  }

  Fingerprint digest(Step step) const {
    const auto reader =
        CheckpointReader::open(real_files(), folder_.at(absl::StrCat("step-0000000", step.value)));
    return reader.ok() ? (*reader)->digest().value_or(Fingerprint{}) : Fingerprint{};
  }

  // Step 3 takes the first expert from step 2; step 2, saved again, the second from step 1.
  FakeState next() const {
    return GetParam().step == Step(3) ? mixture(3, kFirst, 2) : mixture(3, kSecond, 1);
  }
  FakePartial what_is_left_out() const {
    return GetParam().step == Step(3) ? FakePartial{Step(2), {kFirst}}
                                      : FakePartial{Step(1), {kSecond}};
  }

  absl::Status save_next(Files& files) const {
    auto job = FakeJob::open(files, options());
    if (!job.ok()) return job.status();
    return (*job)->save_partial(next(), GetParam().step, what_is_left_out());
  }

  // In a child process; true if it got through.
  bool survives(const FileFaultPlan& plan) const {
    const pid_t child = ::fork();
    if (child == 0) {
      FaultyFiles faulty(real_files(), plan);
      ::_exit(save_next(faulty).ok() ? 0 : 1);
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

  // The newest is whole, and is the chain's or the new one; returns whether the new one.
  bool new_one_is_there() const {
    const GoodCheckpoint found =
        open_newest_good(real_files(), folder_.path(), /*verify_contents=*/true);
    EXPECT_THAT(found.skipped, IsEmpty()) << "what is visible cannot be read";
    if (found.reader == nullptr) {
      ADD_FAILURE() << "no checkpoint is left";
      return false;
    }
    const Fingerprint found_digest = found.reader->digest().value();
    const Fingerprint wanted = next().digest(GetParam().step);
    EXPECT_THAT(found_digest, AnyOf(mixture(2, kSecond, 1).digest(Step(2)), wanted));
    return found_digest == wanted;
  }

  // The next save works, builds on what was found, and removes what nobody needs.
  void goes_on() const {
    const Step base = open_newest_good(real_files(), folder_.path(), true).reader->position().step;
    auto job = FakeJob::open(real_files(), options()).value();
    FakeState state = mixture(4, kFirst, 4);
    const absl::Status saved = job->save_partial(state, Step(4), {base, {}});
    ASSERT_TRUE(saved.ok()) << saved;
    EXPECT_EQ(digest(Step(4)), state.digest(Step(4)));
    EXPECT_THAT(real_files().list(folder_.path()).value(), ElementsAre("latest", "step-00000004"));
  }

  ScratchFolder folder_{"/dev/shm"};
};

TEST_P(PartialCrashTest, WhatIsVisibleIsReadable) {
  const PartialCrashCase& game = GetParam();
  int old_seen = 0;
  int new_seen = 0;
  bool done = false;
  for (int64_t n = 0; n < kPartialOperationsMax && !done; ++n) {
    SCOPED_TRACE(absl::StrCat("killed at file operation ", n));
    save_chain();
    done = survives({.fault = game.fault, .first = n, .no_exchange = game.no_exchange});
    const bool is_new = new_one_is_there();
    EXPECT_TRUE(is_new || (!done && new_seen == 0));
    ++(is_new ? new_seen : old_seen);
    goes_on();
    if (HasFailure()) return;
  }
  EXPECT_TRUE(done) << "more operations than expected";
  EXPECT_GT(old_seen, 15);
  EXPECT_GT(new_seen, 5) << "crashes after publishing were not reached";
}

INSTANTIATE_TEST_SUITE_P(
    , PartialCrashTest,
    ::testing::Values(PartialCrashCase{"KillNextStep", FileFault::kKill, Step(3), false},
                      PartialCrashCase{"TearNextStep", FileFault::kTear, Step(3), false},
                      PartialCrashCase{"KillSameStep", FileFault::kKill, Step(2), false},
                      PartialCrashCase{"TearSameStep", FileFault::kTear, Step(2), false},
                      PartialCrashCase{"KillSameStepWithoutExchange", FileFault::kKill, Step(2),
                                       true}),
    [](const auto& info) { return info.param.name; });

using PartialDiskErrorTest = PartialCrashTest;

TEST_P(PartialDiskErrorTest, AFailedSaveIsToldAndLeavesWhatWasThere) {
  bool done = false;
  for (int64_t n = 0; n < kPartialOperationsMax && !done; ++n) {
    SCOPED_TRACE(absl::StrCat("file operation ", n, " fails"));
    save_chain();
    FaultyFiles faulty(real_files(), {.fault = GetParam().fault, .first = n, .last = n});
    const absl::Status saved = save_next(faulty);
    done = faulty.fault_count() == 0;
    EXPECT_EQ(saved.ok(), done) << saved;
    if (!done) {
      EXPECT_THAT(std::string(saved.message()), HasSubstr(folder_.path())) << "which file?";
    }
    new_one_is_there();
    goes_on();
    if (HasFailure()) return;
  }
  EXPECT_TRUE(done);
}

INSTANTIATE_TEST_SUITE_P(
    , PartialDiskErrorTest,
    ::testing::Values(PartialCrashCase{"FullDisk", FileFault::kNoSpace, Step(3), false},
                      PartialCrashCase{"ReadOrWriteError", FileFault::kIoError, Step(3), false},
                      PartialCrashCase{"StaleHandleSameStep", FileFault::kStale, Step(2), false}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace evermoe
