// Partial checkpoints: what experts of several ages make together, and what must not be mixed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "checkpoint/fake_state_testing.h"
#include "checkpoint/format/checkpoint_names.h"

namespace evermoe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kSmall[] = "layer.0.expert.0";
constexpr char kLarge[] = "layer.0.expert.1";

class PartialCheckpointTest : public ::testing::Test {
 protected:
  SaverOptions options(int world) const {
    SaverOptions result;
    result.directory = folder_.at("out/checkpoints");
    result.world_size = world;
    result.compute_type = ElementType::kBf16;
    result.keep_newest = 9;
    result.block_bytes = 4096;
    return result;
  }
  std::unique_ptr<FakeJob> job(int world) { return FakeJob::open(files_, options(world)).value(); }
  std::string at(int64_t step, const std::string& name = "") const {
    const std::string folder = folder_.at("out/checkpoints/" + step_directory_name(Step(step)));
    return name.empty() ? folder : join_path(folder, name);
  }
  absl::StatusOr<std::unique_ptr<CheckpointReader>> open(int64_t step) {
    return CheckpointReader::open(files_, at(step));
  }
  std::vector<std::string> names() {
    std::vector<std::string> result;
    const std::vector<std::string> paths =
        list_checkpoints(files_, folder_.at("out/checkpoints")).value();
    for (const std::string& path : paths) result.push_back(base_name(path));
    return result;
  }
  static FakeState state(uint64_t seed, std::map<std::string, uint64_t> older = {}) {
    FakeState result;
    result.seed = seed;
    result.seeds = std::move(older);
    return result;
  }
  // Step 10 whole, with seed 1, and step 20, with seed 2 but for an expert of step 10.
  void save_two() {
    auto savers = job(2);
    ASSERT_TRUE(savers->save(state(1), Step(10)).ok());
    ASSERT_TRUE(savers->save_partial(state(2), Step(20), {Step(10), {kLarge}, 7, 3}).ok());
  }
  void expect_good(int64_t step, const FakeState& content) {
    const auto reader = open(step);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->digest().value(), content.digest(Step(step)));
    EXPECT_THAT((*reader)->verify(), IsEmpty());
  }

  Files& files_ = real_files();
  ScratchFolder folder_{"/dev/shm"};
};

TEST_F(PartialCheckpointTest, ExpertsOfSeveralAgesMakeOneState) {
  ASSERT_TRUE(job(2)->save(state(1), Step(10)).ok());
  ASSERT_TRUE(job(3)->save_partial(state(2), Step(20), {Step(10), {kLarge}, 7, 3}).ok());
  ASSERT_TRUE(job(1)->save_partial(state(3), Step(30), {Step(20), {kSmall}}, FakeCut::kWhole).ok());
  ASSERT_TRUE(job(2)->save_partial(state(4), Step(40), {Step(30), {kSmall, kLarge}, 5, 0}).ok());
  expect_good(20, state(2, {{kLarge, 1}}));
  expect_good(30, state(3, {{kSmall, 2}}));
  expect_good(40, state(4, {{kSmall, 2}, {kLarge, 3}}));
  const Manifest manifest = open(40).value()->manifest();
  EXPECT_TRUE(is_mixed(manifest));
  EXPECT_THAT(needed_steps(manifest), ElementsAre(Step(20), Step(30)));
  EXPECT_EQ(saved_at(manifest, *manifest.find(kSmall)), Step(20));
  EXPECT_EQ(saved_at(manifest, *manifest.find(kLarge)), Step(30));
  EXPECT_EQ(saved_at(manifest, *manifest.find("head")), Step(40));
  EXPECT_EQ(manifest.find(kSmall)->unsaved_tokens, 5);
  const Manifest second = open(20).value()->manifest();
  EXPECT_EQ(second.find(kLarge)->unsaved_tokens, 7);
  EXPECT_EQ(second.find(kSmall)->unsaved_tokens, 0);
  EXPECT_EQ(second.find(kSmall)->lost_tokens, 3);
  EXPECT_FALSE(is_mixed(open(10).value()->manifest()));
}

TEST_F(PartialCheckpointTest, AnyRangeOfAnOlderExpertIsRead) {
  save_two();
  const auto reader = open(20).value();
  const std::vector<std::byte> whole = state(1).bytes(4, StatePart::kExpAvg);
  std::vector<std::byte> got(600 * 4);
  ASSERT_TRUE(reader->read(kLarge, StatePart::kExpAvg, {300, 900}, got).ok());
  EXPECT_TRUE(std::equal(got.begin(), got.end(), whole.begin() + 300 * 4));
}

TEST_F(PartialCheckpointTest, AWholeCheckpointStaysWhatEveryProgramReads) {
  save_two();
  const auto text = [&](int64_t step) {
    return read_file(files_, at(step, kManifestName), 1 << 20).value();
  };
  EXPECT_THAT(text(10), HasSubstr("\"version\":1"));
  EXPECT_THAT(text(20), HasSubstr("\"version\":2"));
  // Nothing lost and nothing unsaved: the histories say nothing that the manifest has to.
  ASSERT_TRUE(job(2)->save_partial(state(3), Step(30), {}).ok());
  EXPECT_THAT(text(30), HasSubstr("\"version\":1"));
}

TEST_F(PartialCheckpointTest, WhatIsNeededStaysAsLongAsItIs) {
  SaverOptions chosen = options(2);
  chosen.keep_newest = 1;
  chosen.keep_best = 0;
  auto savers = FakeJob::open(files_, chosen).value();
  ASSERT_TRUE(savers->save(state(1), Step(10)).ok());
  ASSERT_TRUE(savers->save_partial(state(2), Step(20), {Step(10), {kLarge}}).ok());
  EXPECT_THAT(names(), ElementsAre("step-00000020", "step-00000010"));
  ASSERT_TRUE(savers->save_partial(state(3), Step(30), {Step(20), {kLarge}}).ok());
  EXPECT_THAT(names(), ElementsAre("step-00000030", "step-00000010"));
  // Another process knows it from the manifests.
  savers = FakeJob::open(files_, chosen).value();
  ASSERT_TRUE(savers->save_partial(state(4), Step(40), {Step(30), {kSmall}}).ok());
  EXPECT_THAT(names(), ElementsAre("step-00000040", "step-00000030"));
  expect_good(40, state(4, {{kSmall, 3}}));
  ASSERT_TRUE(savers->save(state(5), Step(50)).ok());
  EXPECT_THAT(names(), ElementsAre("step-00000050"));
}

TEST_F(PartialCheckpointTest, TheBaseOfASaveThatIsOnItsWayStays) {
  SaverOptions chosen = options(2);
  chosen.keep_newest = 1;
  chosen.keep_best = 0;
  auto savers = FakeJob::open(files_, chosen).value();
  ASSERT_TRUE(savers->save(state(1), Step(10)).ok());
  ASSERT_TRUE(savers->prepare(state(2), state(2).position(Step(20)), FakeCut::kEven).ok());
  ASSERT_TRUE(
      savers->prepare_partial(state(3), state(3).position(Step(30)), {Step(10), {kLarge}}).ok());
  ASSERT_TRUE(savers->publish(Step(20)).ok());
  const absl::Status published = savers->publish(Step(30));
  ASSERT_TRUE(published.ok()) << published;
  expect_good(30, state(3, {{kLarge, 1}}));
  EXPECT_THAT(names(), ElementsAre("step-00000030", "step-00000010"));
}

// A run that went back has saved step 10 again; step 20 is of the future that was given up.
TEST_F(PartialCheckpointTest, AReplacedBaseIsNotMixedIn) {
  for (const bool is_as_large : {true, false}) {
    SCOPED_TRACE(is_as_large);
    ASSERT_TRUE(remove_tree(files_, folder_.at("out")).ok());
    save_two();
    const auto sizes = [&] {
      return std::pair(files_.file_size(at(10, rank_file_name(0))).value(),
                       files_.file_size(at(10, rank_file_name(1))).value());
    };
    const auto before = sizes();
    ASSERT_TRUE(
        job(2)->save(state(9), Step(10), is_as_large ? FakeCut::kEven : FakeCut::kLopsided).ok());
    ASSERT_EQ(sizes() == before, is_as_large);
    const absl::Status opened = open(20).status();
    EXPECT_TRUE(absl::IsDataLoss(opened)) << opened;
    EXPECT_THAT(std::string(opened.message()), HasSubstr(at(10, "rank-000")));
    if (is_as_large) {
      EXPECT_THAT(std::string(opened.message()),
                  HasSubstr("operator layer.0.expert.1 is not the one that the checkpoint of step "
                            "20 was made with: step 10 has been saved again"));
    }
    const GoodCheckpoint good =
        open_newest_good(files_, folder_.at("out"), /*verify_contents=*/false);
    ASSERT_NE(good.reader, nullptr);
    EXPECT_EQ(good.reader->digest().value(), state(9).digest(Step(10)));
    EXPECT_EQ(good.skipped.size(), 1u);
  }
}

// It must not take the place of one that can be read.
TEST_F(PartialCheckpointTest, WhatLostItsBaseCountsForNoRule) {
  SaverOptions chosen = options(2);
  chosen.keep_newest = 2;
  chosen.keep_best = 0;
  auto savers = FakeJob::open(files_, chosen).value();
  ASSERT_TRUE(savers->save(state(1), Step(10)).ok());
  ASSERT_TRUE(savers->save_partial(state(2), Step(20), {Step(10), {kLarge}}).ok());
  ASSERT_TRUE(savers->save(state(8), Step(10)).ok());
  ASSERT_TRUE(savers->save(state(9), Step(15)).ok());
  ASSERT_TRUE(savers->save(state(9), Step(25)).ok());
  EXPECT_THAT(names(), ElementsAre("step-00000025", "step-00000015"));
}

TEST_F(PartialCheckpointTest, WithoutTheManifestOfAReplacedBaseItsBytesTell) {
  save_two();
  ASSERT_TRUE(job(2)->save(state(9), Step(10)).ok());
  ASSERT_TRUE(write_file_synced(files_, at(10, kManifestName), "{").ok());
  const auto reader = open(20);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE(absl::IsDataLoss((*reader)->digest().status()));
  EXPECT_THAT((*reader)->verify(), ::testing::SizeIs(6)) << "three parts of two shards";
}

TEST_F(PartialCheckpointTest, ABaseThatIsSavedAgainWithTheSameBytesStillServes) {
  save_two();
  ASSERT_TRUE(job(2)->save(state(1), Step(10)).ok());
  expect_good(20, state(2, {{kLarge, 1}}));
}

TEST_F(PartialCheckpointTest, ABaseThatWasReplacedSinceTheSaveBeganIsRefused) {
  auto savers = job(2);
  ASSERT_TRUE(savers->save(state(1), Step(10)).ok());
  ASSERT_TRUE(
      savers->prepare_partial(state(2), state(2).position(Step(20)), {Step(10), {kLarge}}).ok());
  ASSERT_TRUE(savers->save(state(9), Step(10)).ok());
  const absl::Status published = savers->publish(Step(20));
  EXPECT_TRUE(absl::IsDataLoss(published)) << published;
  EXPECT_THAT(std::string(published.message()),
              AllOf(HasSubstr(at(10, kManifestName)),
                    HasSubstr("step 10 has been saved again since step 20 began to be saved")));
  EXPECT_THAT(names(), ElementsAre("step-00000010"));
  ASSERT_TRUE(savers->save_partial(state(2), Step(20), {Step(10), {kLarge}}).ok());
  expect_good(20, state(2, {{kLarge, 9}}));
}

// Step 20 is whole by its manifest alone.
TEST_F(PartialCheckpointTest, ABaseThatLostItsOwnBaseIsRefused) {
  save_two();
  auto savers = job(2);
  ASSERT_TRUE(savers->save(state(9), Step(10)).ok());
  const absl::Status saved = savers->save_partial(state(3), Step(30), {Step(20), {kLarge}});
  EXPECT_TRUE(absl::IsDataLoss(saved)) << saved;
  EXPECT_THAT(std::string(saved.message()), HasSubstr("step 10 has been saved again"));
  EXPECT_TRUE(savers->save_partial(state(3), Step(30), {Step(20), {kSmall}}).ok())
      << "the other expert is step 20's own";
  expect_good(30, state(3, {{kSmall, 2}}));
}

TEST_F(PartialCheckpointTest, NothingIsPublishedUnlessEveryExpertIsSomewhere) {
  auto savers = job(2);
  ASSERT_TRUE(savers->save(state(1), Step(10)).ok());
  FakeState more = state(2);
  more.operators.emplace_back("layer.0.expert.2", 64);
  const absl::Status missing =
      savers->save_partial(more, Step(20), {Step(10), {"layer.0.expert.2"}});
  EXPECT_TRUE(absl::IsDataLoss(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("operator layer.0.expert.2 is not saved, and the base has none of this"));
  const absl::Status gone = savers->save_partial(state(2), Step(20), {Step(5), {kLarge}});
  EXPECT_TRUE(absl::IsNotFound(gone)) << gone;
  EXPECT_THAT(std::string(gone.message()), HasSubstr(at(5, kManifestName)));
  EXPECT_THAT(names(), ElementsAre("step-00000010"));
}

TEST_F(PartialCheckpointTest, WhatCannotBeAPartialSaveIsRefusedAtOnce) {
  auto savers = job(1);
  const auto refusal = [&](PartialSave partial) {
    const absl::Status status =
        savers->rank(0).begin(state(1).position(Step(10)), {}, std::move(partial));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({Step(10), {}}), HasSubstr("of step 10 cannot build on that of step 10"));
  EXPECT_THAT(refusal({Step(-1), {{kSmall, 0, 0, false}}}), HasSubstr("no base has it"));
  EXPECT_THAT(refusal({Step(5), {{kSmall}, {kSmall}}}), HasSubstr("has two histories"));
  EXPECT_THAT(refusal({Step(5), {{kSmall, -1}}}), HasSubstr("number of tokens out of range"));
  EXPECT_THAT(refusal({Step(5), {{""}}}), HasSubstr("empty or too long"));
}

TEST_F(PartialCheckpointTest, DamageInAnOlderFolderIsNamed) {
  save_two();
  const std::string file = at(10, rank_file_name(1));
  const std::string good = read_file(files_, file, 1 << 20).value();
  std::string bad = good;
  bad.back() ^= 1;  // exp_avg_sq of the last operator
  ASSERT_TRUE(write_file_synced(files_, file, bad).ok());
  EXPECT_THAT(open(20).value()->verify(),
              ElementsAre(HasSubstr(file + ": operator layer.0.expert.1 exp_avg_sq")));
  ASSERT_TRUE(write_file_synced(files_, file, good + "x").ok());
  EXPECT_THAT(std::string(open(20).status().message()), HasSubstr(file + ": has "));
  ASSERT_TRUE(files_.remove_file(file).ok());
  const absl::Status missing = open(20).status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr(file));
}

// What is not taken from it may be damaged.
TEST_F(PartialCheckpointTest, OnlyWhatIsTakenFromAnOlderFileCounts) {
  save_two();
  const std::string file = at(10, rank_file_name(0));
  std::string bad = read_file(files_, file, 1 << 20).value();
  bad[4096] ^= 1;  // the first master weight of the embedding
  ASSERT_TRUE(write_file_synced(files_, file, bad).ok());
  EXPECT_THAT(open(10).value()->verify(), ElementsAre(HasSubstr("operator embedding master")));
  expect_good(20, state(2, {{kLarge, 1}}));
}

TEST_F(PartialCheckpointTest, OlderFoldersAreFoundThroughLinks) {
  save_two();
  const std::string link = folder_.at("best");
  ASSERT_TRUE(files_.create_symlink("out/checkpoints/step-00000020", link).ok());
  for (const std::string& path : {link, folder_.at("out/checkpoints/latest"), at(20) + "/"}) {
    const auto reader = CheckpointReader::open(files_, path);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_THAT((*reader)->verify(), IsEmpty());
  }
  // Where two names cannot be swapped there is a moment at which the older one goes by another.
  std::filesystem::rename(at(10), at(10) + kReplacedSuffix);
  expect_good(20, state(2, {{kLarge, 1}}));
  std::filesystem::rename(at(20), folder_.at("alone"));
  const absl::Status alone = CheckpointReader::open(files_, folder_.at("alone")).status();
  EXPECT_TRUE(absl::IsNotFound(alone)) << alone;
  EXPECT_THAT(std::string(alone.message()), HasSubstr("step-00000010/rank-0000.safetensors"));
}

TEST_F(PartialCheckpointTest, DifferencesOfMixedCheckpointsAreFound) {
  save_two();
  SaverOptions elsewhere = options(2);
  elsewhere.directory = folder_.at("other");
  auto savers = FakeJob::open(files_, elsewhere).value();
  ASSERT_TRUE(savers->save(state(2, {{kLarge, 1}}), Step(20)).ok());
  const auto mixed = open(20).value();
  const auto whole = CheckpointReader::open(files_, folder_.at("other")).value();
  EXPECT_FALSE(first_difference(*mixed, *whole).value().has_value());
  ASSERT_TRUE(savers->save(state(2), Step(20)).ok());
  const auto other = CheckpointReader::open(files_, folder_.at("other")).value();
  EXPECT_EQ(first_difference(*mixed, *other).value()->where, "layer.0.expert.1 master element 0");
}

}  // namespace
}  // namespace evermoe
