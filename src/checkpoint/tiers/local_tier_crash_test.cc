// What is on the disks of all machines after a save to them dies at each of its file operations.
//
// Two ranks with a folder each. A child process saves and commits through FaultyFiles, which kills
// it at operation n; the parent then looks what both can go on from, settles that and goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/fake_state_testing.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/tiers/local_tier.h"
#include "env/faulty_files.h"

namespace evermoe {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kWorld = 2;
constexpr int64_t kLocalOperationsMax = 400;
constexpr FakeCut kCut = FakeCut::kEven;

class LocalTierTest : public ::testing::Test {
 protected:
  LocalTierTest() {
    old_.seed = 1;
    new_.seed = 2;
    next_.seed = 3;
  }

  std::string folder_of(int rank) const { return folder_.at(absl::StrCat("rank-", rank)); }

  absl::StatusOr<std::unique_ptr<LocalTier>> open(Files& files, int rank) const {
    SaverOptions options;
    options.directory = folder_of(rank);
    options.rank = rank;
    options.world_size = kWorld;
    options.compute_type = ElementType::kBf16;
    options.keep_newest = 1;
    options.block_bytes = 8192;
    return LocalTier::open(files, options);
  }

  // Both phases on both ranks, one after the other, so that a kill at any place of either is met.
  absl::Status save(Files& files, const FakeState& state, Step step) const {
    std::vector<std::unique_ptr<LocalTier>> tiers;
    for (int rank = 0; rank < kWorld; ++rank) {
      ASSIGN_OR_RETURN(auto tier, open(files, rank));
      tiers.push_back(std::move(tier));
      RETURN_IF_ERROR(
          tiers.back()->begin(state.position(step), View(1), state.shards(rank, kWorld, kCut)));
      RETURN_IF_ERROR(tiers.back()->wait_prepared(absl::InfiniteDuration()));
    }
    for (const auto& tier : tiers) {
      tier->commit(step);
      RETURN_IF_ERROR(tier->wait_committed(absl::InfiniteDuration()));
    }
    return absl::OkStatus();
  }

  // True if the child got through.
  bool survives(const FileFaultPlan& plan, Step step) const {
    const pid_t child = ::fork();
    if (child == 0) {
      FaultyFiles faulty(real_files(), plan);
      ::_exit(save(faulty, new_, step).ok() ? 0 : 1);
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

  std::vector<std::vector<LocalSave>> told() const {
    std::vector<std::vector<LocalSave>> all;
    for (int rank = 0; rank < kWorld; ++rank)
      all.push_back(list_local_saves(real_files(), folder_of(rank), rank));
    return all;
  }

  static absl::Status compare(CheckpointReader& reader, const ShardSource& shard) {
    for (const StatePart part : kStateParts) {
      const size_t bytes =
          static_cast<size_t>(shard.range.size() * element_bytes(ElementType::kFp32));
      std::vector<std::byte> wanted(bytes);
      std::vector<std::byte> found(bytes);
      shard.copy(part, wanted);
      RETURN_IF_ERROR(reader.read(shard.operator_name, part, shard.range, found));
      if (found != wanted) return Corrupt(shard.operator_name + " has other bytes");
    }
    return absl::OkStatus();
  }

  // Every byte of what all ranks have of `chosen`.
  absl::Status holds(const LocalSave& chosen, const FakeState& state) const {
    const std::vector<std::vector<LocalSave>> all = told();
    for (int rank = 0; rank < kWorld; ++rank) {
      const std::string path =
          path_of(folder_of(rank), own_of(all[static_cast<size_t>(rank)], chosen));
      ASSIGN_OR_RETURN(const auto reader, CheckpointReader::open_part(real_files(), path, rank));
      for (const ShardSource& shard : state.shards(rank, kWorld, kCut)) {
        if (shard.range.size() > 0) RETURN_IF_ERROR(compare(*reader, shard));
      }
    }
    return absl::OkStatus();
  }

  // What a run does that begins here.
  void goes_on_from(const LocalSave& chosen) const {
    const std::vector<std::vector<LocalSave>> all = told();
    for (int rank = 0; rank < kWorld; ++rank) {
      const absl::Status settled =
          settle_local_saves(real_files(), folder_of(rank), chosen.step,
                             own_of(all[static_cast<size_t>(rank)], chosen));
      ASSERT_TRUE(settled.ok()) << settled;
      const std::string newest = step_directory_name(chosen.step);
      EXPECT_THAT(real_files().list(folder_of(rank)).value(),
                  AllOf(Contains(newest), Each(AnyOf(newest, step_directory_name(Step(1))))));
    }
    ASSERT_TRUE(save(real_files(), next_, Step(3)).ok());
    const std::vector<LocalSave> usable = usable_local_saves(told(), 0);
    ASSERT_EQ(usable.size(), 1U);
    EXPECT_EQ(usable[0].step, Step(3));
    EXPECT_TRUE(holds(usable[0], next_).ok());
  }

  void start_over() const {
    ASSERT_TRUE(remove_tree(real_files(), folder_.path()).ok());
    ASSERT_TRUE(save(real_files(), old_, Step(1)).ok());
  }

  // Dies at every operation in turn; how often the new save was there afterwards.
  int die_everywhere(FileFault fault, Step step) {
    int new_ones = 0;
    bool done = false;
    for (int64_t n = 0; n < kLocalOperationsMax && !done; ++n) {
      SCOPED_TRACE(absl::StrCat("killed at file operation ", n));
      start_over();
      done = survives({.fault = fault, .first = n}, step);
      const std::vector<LocalSave> usable = usable_local_saves(told(), 0);
      if (usable.empty()) {
        ADD_FAILURE() << "nothing is left that all ranks have";
        return new_ones;
      }
      const absl::Status is_old = holds(usable[0], old_);
      const absl::Status is_new = holds(usable[0], new_);
      EXPECT_TRUE(is_old.ok() || is_new.ok()) << is_old << "; " << is_new;
      if (is_new.ok()) ++new_ones;
      if (done) {
        EXPECT_TRUE(is_new.ok()) << is_new;
      }
      goes_on_from(usable[0]);
      if (HasFailure()) return new_ones;
    }
    EXPECT_TRUE(done);
    return new_ones;
  }

  ScratchFolder folder_{"/dev/shm"};
  FakeState old_;
  FakeState new_;
  FakeState next_;
};

TEST_F(LocalTierTest, KilledAnywhereAllRanksHaveAWholeSave) {
  EXPECT_GT(die_everywhere(FileFault::kKill, Step(2)), 1) << "with one rank's rename it counts";
}
TEST_F(LocalTierTest, TornAnywhereAllRanksHaveAWholeSave) {
  EXPECT_GT(die_everywhere(FileFault::kTear, Step(2)), 1);
}

TEST_F(LocalTierTest, FailsWithTheReasonAndGoesOn) {
  for (const FileFault fault : {FileFault::kNoSpace, FileFault::kStale, FileFault::kIoError}) {
    bool done = false;
    for (int64_t n = 0; n < kLocalOperationsMax && !done; ++n) {
      SCOPED_TRACE(absl::StrCat("file operation ", n, " fails"));
      start_over();
      FaultyFiles faulty(real_files(), {.fault = fault, .first = n, .last = n});
      const absl::Status saved = save(faulty, new_, Step(2));
      done = faulty.fault_count() == 0;
      EXPECT_EQ(saved.ok(), done) << saved;
      if (!done) {
        EXPECT_THAT(std::string(saved.message()), HasSubstr(folder_.path()));
      }
      const std::vector<LocalSave> usable = usable_local_saves(told(), 0);
      ASSERT_FALSE(usable.empty());
      goes_on_from(usable[0]);
      if (HasFailure()) return;
    }
    EXPECT_TRUE(done);
  }
}

TEST_F(LocalTierTest, SettlingRemovesFuturesAndUnfinishedSaves) {
  start_over();
  auto tier = open(real_files(), 0).value();
  ASSERT_TRUE(tier->begin(new_.position(Step(3)), View(1), new_.shards(0, kWorld, kCut)).ok());
  ASSERT_TRUE(tier->wait_prepared(absl::InfiniteDuration()).ok());
  tier.reset();
  ASSERT_TRUE(settle_local_saves(real_files(), folder_of(0), Step(2), std::nullopt).ok());
  EXPECT_THAT(real_files().list(folder_of(0)).value(), ElementsAre("step-00000001"));
  ASSERT_TRUE(settle_local_saves(real_files(), folder_of(0), Step(0), std::nullopt).ok());
  EXPECT_THAT(real_files().list(folder_of(0)).value(), IsEmpty());
}

TEST_F(LocalTierTest, SettlingRemovesTheSameStepThatWasNotTaken) {
  start_over();
  ASSERT_TRUE(settle_local_saves(real_files(), folder_of(0), Step(1), std::nullopt).ok());
  EXPECT_THAT(real_files().list(folder_of(0)).value(), IsEmpty());
}

// One rank's disk is unusable, so nothing is committed any more.
TEST_F(LocalTierTest, WhatIsNeverCommittedDoesNotFillTheDisk) {
  start_over();
  const auto tier = open(real_files(), 0).value();
  for (int64_t step = 2; step <= 24; ++step) {
    ASSERT_TRUE(tier->begin(new_.position(Step(step)), View(1), new_.shards(0, kWorld, kCut)).ok());
    ASSERT_TRUE(tier->wait_prepared(absl::InfiniteDuration()).ok());
  }
  EXPECT_THAT(
      real_files().list(folder_of(0)).value(),
      ElementsAre("step-00000001", "step-00000022.tmp", "step-00000023.tmp", "step-00000024.tmp"));
  EXPECT_THAT(list_local_saves(real_files(), folder_of(0), 0),
              Contains(Field(&LocalSave::is_committed, true)));
}

// However many failed after it: other ranks may be told that this one has it.
TEST_F(LocalTierTest, WhatItSaysThatItHasStays) {
  start_over();
  const auto tier = open(real_files(), 0).value();
  ASSERT_TRUE(tier->begin(new_.position(Step(2)), View(1), new_.shards(0, kWorld, kCut)).ok());
  ASSERT_TRUE(tier->wait_prepared(absl::InfiniteDuration()).ok());
  for (int64_t step = 3; step <= 8; ++step) {
    const std::string obstacle =
        join_path(folder_of(0), step_directory_name(Step(step))) + kTemporarySuffix;
    ASSERT_TRUE(write_file_synced(real_files(), obstacle, "no folder").ok());
    ASSERT_TRUE(tier->begin(new_.position(Step(step)), View(1), new_.shards(0, kWorld, kCut)).ok());
    ASSERT_FALSE(tier->wait_prepared(absl::InfiniteDuration()).ok());
    ASSERT_EQ(tier->prepared(), Step(2));
  }
  tier->commit(Step(2));
  ASSERT_TRUE(tier->wait_committed(absl::InfiniteDuration()).ok());
  EXPECT_EQ(tier->committed(), Step(2));
}

TEST_F(LocalTierTest, TheNewestAreNewestByNumber) {
  ASSERT_TRUE(save(real_files(), old_, Step(99'999'999)).ok());
  ASSERT_TRUE(save(real_files(), new_, Step(100'000'000)).ok());
  EXPECT_THAT(real_files().list(folder_of(0)).value(), ElementsAre("step-100000000"));
}

TEST_F(LocalTierTest, ADamagedPartIsFoundWhenItIsRead) {
  start_over();
  const LocalSave chosen = usable_local_saves(told(), 0).at(0);
  const std::string path = join_path(path_of(folder_of(1), chosen), rank_file_name(1));
  std::string bytes = read_file(real_files(), path, 1 << 20).value();
  bytes[bytes.size() / 2] ^= 1;
  ASSERT_TRUE(write_file_synced(real_files(), path, bytes).ok());
  const absl::Status read = holds(chosen, old_);
  EXPECT_TRUE(absl::IsDataLoss(read)) << read;
  EXPECT_THAT(std::string(read.message()), HasSubstr(path));
}

}  // namespace
}  // namespace evermoe
