// Saving and loading when nothing goes wrong, or when the caller does something wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/fake_state_testing.h"
#include "checkpoint/format/checkpoint_names.h"
#include "env/faulty_files.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointTest : public ::testing::Test {
 protected:
  SaverOptions options(int world) {
    SaverOptions result;
    result.directory = folder_.at("out/checkpoints");
    result.world_size = world;
    result.state_types = state_.state_types;
    result.compute_type = state_.compute_type;
    result.topology = "fake";
    result.block_bytes = 4096;  // several writes even of these small files
    return result;
  }
  std::unique_ptr<FakeJob> job(int world) { return FakeJob::open(files_, options(world)).value(); }
  std::unique_ptr<CheckpointReader> reader(const std::string& path = "out") {
    return CheckpointReader::open(files_, folder_.at(path)).value();
  }
  std::vector<std::string> names() {
    std::vector<std::string> result;
    const std::vector<std::string> paths =
        list_checkpoints(files_, folder_.at("out/checkpoints")).value();
    for (const std::string& path : paths) result.push_back(base_name(path));
    return result;
  }

  Files& files_ = real_files();
  ScratchFolder folder_;
  FakeState state_;
};

TEST_F(CheckpointTest, DigestDoesNotDependOnTheTopology) {
  for (const auto& [state_type, compute_type] :
       {std::pair(ElementType::kFp32, ElementType::kBf16),
        std::pair(ElementType::kFp32, ElementType::kFp32),
        std::pair(ElementType::kFp32, ElementType::kFp16),
        std::pair(ElementType::kFp64, ElementType::kFp64)}) {
    state_.state_types = same_types(state_type);
    state_.compute_type = compute_type;
    for (int world : {1, 2, 3, 8}) {
      for (FakeCut cut : {FakeCut::kEven, FakeCut::kWhole, FakeCut::kLopsided}) {
        ASSERT_TRUE(job(world)->save(state_, Step(7), cut).ok());
        auto saved = reader();
        EXPECT_EQ(saved->digest().value(), state_.digest(Step(7))) << world;
        EXPECT_THAT(saved->verify(), IsEmpty());
        EXPECT_EQ(saved->position(), state_.position(Step(7)));
      }
    }
  }
}

// Every part in its own type; shards are whole blocks of FP8.
TEST_F(CheckpointTest, PartsHaveTypesOfTheirOwn) {
  using enum ElementType;
  state_.operators = {{"a", 640}, {"b", 64 * 1000}, {"c", 64}};
  for (const auto& [types, compute] : {std::pair(PartTypes{kFp16, kFp16, kFp16}, kFp16),
                                       std::pair(PartTypes{kFp32, kFp32, kFp32}, kFp8),
                                       std::pair(PartTypes{kFp16, kFp8, kFp16}, kFp8),
                                       std::pair(PartTypes{kFp8, kFp8, kFp16}, kFp8)}) {
    state_.state_types = types;
    state_.compute_type = compute;
    for (int world : {1, 3}) {
      ASSERT_TRUE(job(world)->save(state_, Step(7), FakeCut::kEven).ok());
      auto saved = reader("out/checkpoints/step-00000007");
      EXPECT_EQ(saved->digest().value(), state_.digest(Step(7))) << world;
      EXPECT_THAT(saved->verify(), IsEmpty());
      for (StatePart part : kStateParts) {
        const ElementType type = type_of(types, part);
        const std::vector<std::byte> whole = state_.bytes(1, part);
        const FlatRange range{64 * 300, 64 * 700};
        std::vector<std::byte> got(static_cast<size_t>(stored_bytes(type, range.size())));
        ASSERT_TRUE(saved->read("b", part, range, got).ok());
        EXPECT_TRUE(
            std::equal(got.begin(), got.end(), whole.begin() + stored_bytes(type, range.begin)))
            << to_string(part);
      }
    }
    FakeState other = state_;
    other.seed += 1;
    ASSERT_TRUE(job(2)->save(state_, Step(7), FakeCut::kEven).ok());
    ASSERT_TRUE(job(2)->save(other, Step(8), FakeCut::kEven).ok());
    auto first = reader("out/checkpoints/step-00000007"),
         second = reader("out/checkpoints/step-00000008");
    EXPECT_TRUE(first_difference(*first, *second).value().has_value());
  }
}

TEST_F(CheckpointTest, AShardThatCutsABlockIsRefused) {
  state_.operators = {{"a", 128}};
  state_.state_types[1] = ElementType::kFp8;
  std::vector<ShardSource> shards = state_.shards(0, 1, FakeCut::kEven);
  shards[0].range = {0, 100};
  const auto saver = CheckpointSaver::open(files_, options(1)).value();
  const absl::Status status = saver->begin(state_.position(Step(7)), shards);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("0 to 100 has no whole blocks of fp8"));
}

TEST_F(CheckpointTest, ReshapesThroughSeveralTopologies) {
  ASSERT_TRUE(job(4)->save(state_, Step(1), FakeCut::kEven).ok());
  auto saved = reader();
  for (size_t op = 0; op < state_.operators.size(); ++op) {
    const auto& [name, flat_size] = state_.operators[op];
    for (StatePart part : kStateParts) {
      const std::vector<std::byte> whole = state_.bytes(op, part);
      for (int owners : {1, 2, 3, 7}) {
        for (int owner = 0; owner < owners; ++owner) {
          const FlatRange range = shard_range(flat_size, owners, owner);
          std::vector<std::byte> got(static_cast<size_t>(range.size() * 4));
          ASSERT_TRUE(saved->read(name, part, range, got).ok());
          ASSERT_TRUE(std::equal(got.begin(), got.end(), whole.begin() + range.begin * 4));
        }
      }
    }
  }
  EXPECT_TRUE(absl::IsNotFound(saved->read("layer.9.gate", StatePart::kMaster, {0, 0}, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(saved->read("head", StatePart::kMaster, {0, 1281}, {})));
}

TEST_F(CheckpointTest, EveryPathLeadsToTheNewest) {
  ASSERT_TRUE(job(2)->save(state_, Step(20)).ok());
  ASSERT_TRUE(job(2)->save(state_, Step(40)).ok());
  for (const char* path : {"out", "out/checkpoints", "out/checkpoints/latest",
                           "out/checkpoints/step-00000040", "out/checkpoints/"}) {
    EXPECT_EQ(reader(path)->position().step, Step(40)) << path;
  }
  EXPECT_EQ(files_.read_symlink(folder_.at("out/checkpoints/latest")).value(), "step-00000040");
  EXPECT_EQ(reader("out/checkpoints/step-00000020")->position().step, Step(20));
  EXPECT_TRUE(absl::IsNotFound(CheckpointReader::open(files_, folder_.at("none")).status()));
  EXPECT_THAT(open_newest_good(files_, folder_.at("none"), true).skipped, IsEmpty());
}

TEST_F(CheckpointTest, OnlyWhatBelongsIsInThePublishedFolder) {
  ASSERT_TRUE(job(2)->save(state_, Step(5)).ok());
  EXPECT_THAT(files_.list(folder_.at("out/checkpoints")).value(),
              ElementsAre("latest", "step-00000005"));
  EXPECT_THAT(files_.list(folder_.at("out/checkpoints/step-00000005")).value(),
              ElementsAre("manifest.json", "rank-0000.safetensors", "rank-0001.safetensors"));
}

TEST_F(CheckpointTest, SavingAStepAgainReplacesIt) {
  auto savers = job(2);
  ASSERT_TRUE(savers->save(state_, Step(5)).ok());
  FakeState other = state_;
  other.seed = 2;
  ASSERT_TRUE(savers->save(other, Step(5), FakeCut::kWhole).ok());
  EXPECT_EQ(reader()->digest().value(), other.digest(Step(5)));
  EXPECT_THAT(files_.list(folder_.at("out/checkpoints")).value(),
              ElementsAre("latest", "step-00000005"));
}

TEST_F(CheckpointTest, PreparedAndPublishedSayWhereASaveStands) {
  auto savers = job(2);
  EXPECT_EQ(savers->rank(0).prepared(), Step(-1));
  ASSERT_TRUE(savers->prepare(state_, state_.position(Step(3)), FakeCut::kEven).ok());
  EXPECT_EQ(savers->rank(0).prepared(), Step(3));
  EXPECT_EQ(savers->rank(1).prepared(), Step(3));
  EXPECT_EQ(savers->rank(0).published(), Step(-1));
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(CheckpointReader::open(files_, folder_.at("out")).status()));
  ASSERT_TRUE(savers->publish(Step(3)).ok());
  EXPECT_EQ(savers->rank(0).published(), Step(3));
  EXPECT_EQ(savers->rank(0).prepared(), Step(-1));
  EXPECT_TRUE(savers->publish(Step(3)).ok()) << "twice is fine";
}

// Copies of one operator wait until they may go on.
class HeldCopies {
 public:
  explicit HeldCopies(std::string held) : held_(std::move(held)) {}
  std::vector<ShardSource> of(std::vector<ShardSource> shards) {
    for (ShardSource& shard : shards) {
      if (shard.operator_name != held_) continue;
      shard.copy = [this, copy = shard.copy](StatePart part, std::span<std::byte> into) {
        go_on_.wait();
        copy(part, into);
      };
    }
    return shards;
  }
  void go_on() { go_on_.count_down(); }

 private:
  const std::string held_;
  std::latch go_on_{1};
};

TEST_F(CheckpointTest, BehindTheCallerOperatorsAreCopiedOneAfterTheOther) {
  HeldCopies held("layer.0.block");
  const auto saver = CheckpointSaver::open(files_, options(1)).value();
  const auto shards = held.of(state_.shards(0, 1, FakeCut::kWhole));
  ASSERT_TRUE(saver->begin_behind(state_.position(Step(7)), shards).ok());
  EXPECT_TRUE(saver->wait_copied("embedding").ok()) << "it comes before the one that is held";
  EXPECT_TRUE(saver->is_saving());
  std::atomic<bool> is_copied = false;
  std::thread waits([&] {
    EXPECT_TRUE(saver->wait_copied("layer.0.block").ok());
    is_copied = true;
  });
  EXPECT_TRUE(saver->wait_copied("of another stage").ok());
  EXPECT_FALSE(is_copied);
  held.go_on();
  waits.join();
  ASSERT_TRUE(saver->wait_prepared(absl::Minutes(1)).ok());
  EXPECT_FALSE(saver->is_saving());
  EXPECT_TRUE(saver->wait_copied("layer.0.block").ok()) << "nothing is being copied";
  saver->publish(Step(7));
  ASSERT_TRUE(saver->wait_published(absl::Minutes(1)).ok());
  EXPECT_EQ(reader()->digest().value(), state_.digest(Step(7)));
  EXPECT_THAT(reader()->verify(), IsEmpty());
}

TEST_F(CheckpointTest, ASaverWaitsForWhatIsCopiedBehindItsCaller) {
  HeldCopies held("head");
  auto saver = CheckpointSaver::open(files_, options(1)).value();
  const auto shards = held.of(state_.shards(0, 1, FakeCut::kWhole));
  ASSERT_TRUE(saver->begin_behind(state_.position(Step(7)), shards).ok());
  std::thread ends([&] { saver.reset(); });
  held.go_on();
  ends.join();
  EXPECT_TRUE(real_files().exists(
      folder_.at("out/checkpoints/" + step_directory_name(Step(7)) + kTemporarySuffix)));
}

TEST_F(CheckpointTest, ManySavesInARowReuseTheSaver) {
  auto savers = job(2);
  for (int64_t step = 1; step <= 10; ++step) {
    state_.seed = static_cast<uint64_t>(step);
    // No waiting in between: begin() does it.
    for (int rank : {0, 1}) {
      ASSERT_TRUE(savers->rank(rank)
                      .begin(state_.position(Step(step)), state_.shards(rank, 2, FakeCut::kEven))
                      .ok());
    }
    for (int rank : {0, 1}) ASSERT_TRUE(savers->rank(rank).wait_prepared(absl::Minutes(1)).ok());
    savers->rank(0).publish(Step(step));
  }
  ASSERT_TRUE(savers->rank(0).wait_published(absl::Minutes(1)).ok());
  EXPECT_EQ(reader()->digest().value(), state_.digest(Step(10)));
  EXPECT_THAT(names(), ElementsAre("step-00000010", "step-00000009"));
}

TEST_F(CheckpointTest, NothingIsPublishedUnlessEveryElementIsThereOnce) {
  auto savers = job(2);
  const TrainingPosition position = state_.position(Step(1));
  const auto publish = [&](int rank_of_second) {
    EXPECT_TRUE(savers->rank(0).begin(position, state_.shards(0, 2, FakeCut::kEven)).ok());
    EXPECT_TRUE(
        savers->rank(1).begin(position, state_.shards(rank_of_second, 3, FakeCut::kEven)).ok());
    for (int rank : {0, 1}) EXPECT_TRUE(savers->rank(rank).wait_prepared(absl::Minutes(1)).ok());
    return std::string(savers->publish(Step(1)).message());
  };
  EXPECT_THAT(publish(2), HasSubstr("operator embedding: no rank holds elements 320 to"));
  EXPECT_THAT(publish(0), HasSubstr("operator embedding: ranks 0 and 1 both hold elements"));
  TrainingPosition elsewhere = position;
  elsewhere.samples += 1;
  EXPECT_TRUE(savers->rank(0).begin(position, state_.shards(0, 2, FakeCut::kEven)).ok());
  EXPECT_TRUE(savers->rank(1).begin(elsewhere, state_.shards(1, 2, FakeCut::kEven)).ok());
  for (int rank : {0, 1}) EXPECT_TRUE(savers->rank(rank).wait_prepared(absl::Minutes(1)).ok());
  EXPECT_THAT(std::string(savers->publish(Step(1)).message()),
              HasSubstr("different training positions"));
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_TRUE(savers->save(state_, Step(1)).ok()) << "and a good save still works";
}

TEST_F(CheckpointTest, ARankThatRestsSavesNothingAndCountsOnlySteps) {
  auto savers = job(3);
  const auto publish = [&](Step of_third) {
    const TrainingPosition position = state_.position(Step(1));
    for (int rank : {0, 1})
      EXPECT_TRUE(savers->rank(rank).begin(position, state_.shards(rank, 2, FakeCut::kEven)).ok());
    TrainingPosition rests = state_.position(of_third);
    rests.samples = 0;
    EXPECT_TRUE(savers->rank(2).begin(rests, {}).ok());
    for (int rank : {0, 1, 2}) EXPECT_TRUE(savers->rank(rank).wait_prepared(absl::Minutes(1)).ok());
    return savers->publish(Step(1));
  };
  EXPECT_TRUE(publish(Step(1)).ok());
  EXPECT_EQ(names().size(), 1u);
}

TEST_F(CheckpointTest, WhatCannotBeSavedIsRefusedAtOnce) {
  auto savers = job(1);
  std::vector<ShardSource> shards = state_.shards(0, 1, FakeCut::kEven);
  TrainingPosition position = state_.position(Step(1));
  position.loss_scale = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(absl::IsInvalidArgument(savers->rank(0).begin(position, shards)));
  position.loss_scale = 1;
  std::vector<ShardSource> twice = {shards[0], shards[0]};
  EXPECT_TRUE(absl::IsInvalidArgument(savers->rank(0).begin(position, twice)));
  shards[0].range.end = shards[0].flat_size + 1;
  EXPECT_TRUE(absl::IsInvalidArgument(savers->rank(0).begin(position, shards)));
  shards = state_.shards(0, 1, FakeCut::kEven);
  shards[2].copy = [](StatePart, std::span<std::byte>) {
    throw StatusError(Unsupported("device is gone"));
  };
  EXPECT_TRUE(absl::IsUnimplemented(savers->rank(0).begin(position, shards)));
  position.configuration = "\xff";
  EXPECT_TRUE(savers->rank(0).begin(position, state_.shards(0, 1, FakeCut::kEven)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(savers->rank(0).wait_prepared(absl::Minutes(1))));
  EXPECT_TRUE(savers->save(state_, Step(1)).ok());
}

TEST_F(CheckpointTest, VerifyProvesTheComputeWeights) {
  auto savers = job(1);
  std::vector<ShardSource> shards = state_.shards(0, 1, FakeCut::kEven);
  shards[1].compute_fingerprint = [] { return Fingerprint{1, 2}; };
  ASSERT_TRUE(savers->rank(0).begin(state_.position(Step(1)), shards).ok());
  ASSERT_TRUE(savers->rank(0).wait_prepared(absl::Minutes(1)).ok());
  ASSERT_TRUE(savers->publish(Step(1)).ok());
  EXPECT_THAT(reader()->verify(),
              ElementsAre(HasSubstr("operator head, elements 0 to 1280: the compute weights")));
}

TEST_F(CheckpointTest, RetentionKeepsNewestMilestonesAndBest) {
  SaverOptions chosen = options(1);
  chosen.keep_newest = 2;
  chosen.keep_every_steps = 40;
  chosen.keep_best = 1;
  auto savers = FakeJob::open(files_, chosen).value();
  for (int64_t step = 10; step <= 90; step += 10) {
    TrainingPosition position = state_.position(Step(step));
    position.validation_loss = step == 20 ? 1.5 : 3.0;
    ASSERT_TRUE(savers->prepare(state_, position, FakeCut::kEven).ok());
    ASSERT_TRUE(savers->publish(Step(step)).ok());
  }
  EXPECT_THAT(names(),
              ElementsAre("step-00000090", "step-00000080", "step-00000040", "step-00000020"));
}

TEST_F(CheckpointTest, ThePinnedOneGoesWhenItIsNotNeededAnyMore) {
  SaverOptions chosen = options(1);
  chosen.keep_newest = 1;
  chosen.keep_best = 0;
  chosen.pinned = Step(10);
  auto savers = FakeJob::open(files_, chosen).value();
  for (const int64_t step : {10, 20, 30}) ASSERT_TRUE(savers->save(state_, Step(step)).ok());
  EXPECT_THAT(names(), ElementsAre("step-00000030", "step-00000010"));
  savers->rank(0).unpin();
  ASSERT_TRUE(savers->save(state_, Step(40)).ok());
  EXPECT_THAT(names(), ElementsAre("step-00000040"));
}

TEST_F(CheckpointTest, FirstDifferenceNamesTheElement) {
  ASSERT_TRUE(job(2)->save(state_, Step(5)).ok());
  auto first = reader();
  FakeState other = state_;
  const auto saved_elsewhere = [&](std::vector<ShardSource> shards, TrainingPosition position) {
    SaverOptions chosen = options(1);
    chosen.directory = folder_.at("other");
    auto savers = FakeJob::open(files_, chosen).value();
    EXPECT_TRUE(savers->rank(0).begin(position, shards).ok());
    EXPECT_TRUE(savers->rank(0).wait_prepared(absl::Minutes(1)).ok());
    EXPECT_TRUE(savers->publish(position.step).ok());
    return CheckpointReader::open(files_, folder_.at("other")).value();
  };
  auto same = saved_elsewhere(state_.shards(0, 1, FakeCut::kEven), state_.position(Step(5)));
  EXPECT_FALSE(first_difference(*first, *same).value().has_value());
  std::vector<ShardSource> shards = state_.shards(0, 1, FakeCut::kEven);
  shards[2].copy = [copy = shards[2].copy](StatePart part, std::span<std::byte> into) {
    copy(part, into);
    if (part == StatePart::kExpAvg) into[4 * 3000 + 1] ^= std::byte{1};
  };
  auto changed = saved_elsewhere(shards, state_.position(Step(5)));
  const auto difference = first_difference(*first, *changed).value();
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->where, "layer.0.block exp_avg element 3000");
  EXPECT_NE(difference->first, difference->second);
  TrainingPosition later = state_.position(Step(5));
  later.samples = 1;
  auto moved = saved_elsewhere(state_.shards(0, 1, FakeCut::kEven), later);
  EXPECT_EQ(first_difference(*first, *moved).value()->where, "samples");
}

// Rank 0 dies at each of its file operations while it publishes; who plays it next hears of the
// same verdict and publishes again, beside ranks that have long gone on.
TEST_F(CheckpointTest, ASuccessorFinishesWhatRankZeroWasPublishing) {
  FakeState newer = state_;
  newer.seed = 2;
  SaverOptions joining = options(2);
  joining.joins_others = true;
  bool has_failed = true;
  for (int64_t operation = 0; has_failed; ++operation) {
    ASSERT_LT(operation, 200);
    ASSERT_TRUE(remove_tree(files_, folder_.at("out")).ok());
    ASSERT_TRUE(job(2)->save(state_, Step(7)).ok());  // is replaced
    ASSERT_TRUE(FakeJob::open(files_, joining)
                    .value()
                    ->prepare(newer, newer.position(Step(7)), FakeCut::kEven)
                    .ok());
    FaultyFiles failing(files_, {.fault = FileFault::kIoError, .first = operation});
    const auto predecessor = FakeJob::open(failing, joining);
    has_failed = !predecessor.ok() || !(*predecessor)->publish(Step(7)).ok();
    auto successor = FakeJob::open(files_, joining).value();
    ASSERT_TRUE(successor->publish(Step(7)).ok()) << operation;
    EXPECT_EQ(successor->rank(0).published(), Step(7));
    EXPECT_EQ(reader("out/checkpoints/latest")->digest().value(), newer.digest(Step(7)))
        << operation;
    EXPECT_THAT(names(), ElementsAre("step-00000007"));
  }
}

// The step was published, but the word of it got lost, and one rank has saved it again: the parts
// of the others are merged and gone.
TEST_F(CheckpointTest, AWholeCheckpointIsPublishedThoughSomePartsOfItCameAgain) {
  SaverOptions joining = options(2);
  joining.joins_others = true;
  ASSERT_TRUE(job(2)->save(state_, Step(7)).ok());
  auto again = FakeJob::open(files_, joining).value();
  ASSERT_TRUE(again->prepare(state_, state_.position(Step(7)), FakeCut::kEven).ok());
  const std::string part = "out/checkpoints/step-00000007.tmp/" + rank_part_name(1);
  ASSERT_TRUE(remove_tree(files_, folder_.at(part)).ok());
  auto successor = FakeJob::open(files_, joining).value();
  const absl::Status published = successor->publish(Step(7));
  EXPECT_TRUE(published.ok()) << published;
  EXPECT_EQ(successor->rank(0).published(), Step(7));
  EXPECT_EQ(reader("out/checkpoints/latest")->digest().value(), state_.digest(Step(7)));
  EXPECT_THAT(names(), ElementsAre("step-00000007"));
}

TEST_F(CheckpointTest, ASuccessorLeavesTheSavesOfOthersAlone) {
  SaverOptions joining = options(2);
  joining.joins_others = true;
  auto first = job(2);
  ASSERT_TRUE(first->prepare(state_, state_.position(Step(3)), FakeCut::kEven).ok());
  auto successor = FakeJob::open(files_, joining).value();
  EXPECT_EQ(successor->rank(0).prepared(), Step(-1));
  ASSERT_TRUE(successor->publish(Step(3)).ok());
  EXPECT_EQ(reader()->digest().value(), state_.digest(Step(3)));
}

}  // namespace
}  // namespace evermoe
