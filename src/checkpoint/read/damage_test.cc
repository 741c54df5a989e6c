// Damaged checkpoints: the error names the file, and the older checkpoint is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "checkpoint/fake_state_testing.h"
#include "checkpoint/format/checkpoint_names.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    state_.operators[3].second = 128;  // so that both ranks' files have the same size
    SaverOptions options;
    options.directory = folder_.path();
    options.world_size = 2;
    options.compute_type = ElementType::kBf16;
    auto job = FakeJob::open(files_, options).value();
    ASSERT_TRUE(job->save(state_, Step(1)).ok());
    ASSERT_TRUE(job->save(state_, Step(2)).ok());
  }

  std::string newest(const std::string& name) const {
    return join_path(folder_.at(step_directory_name(Step(2))), name);
  }
  std::string content(const std::string& path) { return read_file(files_, path, 1 << 30).value(); }
  void write(const std::string& path, const std::string& text) {
    ASSERT_TRUE(write_file_synced(files_, path, text).ok());
  }

  // The newest checkpoint is passed over for a reason that names `file`, and step 1 is good.
  void expect_fallback(const std::string& file) {
    const GoodCheckpoint found = open_newest_good(files_, folder_.path(), /*verify_contents=*/true);
    EXPECT_THAT(found.skipped, ElementsAre(HasSubstr(newest(file))));
    ASSERT_NE(found.reader, nullptr);
    EXPECT_EQ(found.reader->digest().value(), state_.digest(Step(1)));
  }

  Files& files_ = real_files();
  ScratchFolder folder_{"/dev/shm"};
  FakeState state_;
  const std::vector<std::string> names_ = {kManifestName, rank_file_name(0), rank_file_name(1)};
};

TEST_F(DamageTest, EveryFlippedBitIsFound) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const std::string& name = names_[random() % names_.size()];
    const std::string good = content(newest(name));
    std::string bad = good;
    // Headers and manifests as often as the bulk.
    const size_t range = random() % 2 == 0 ? std::min<size_t>(bad.size(), 800) : bad.size();
    bad[random() % range] ^= static_cast<char>(1 << random() % 8);
    write(newest(name), bad);
    expect_fallback(name);
    write(newest(name), good);
    if (HasFailure()) return;
  }
  EXPECT_THAT(open_newest_good(files_, folder_.path(), true).skipped, IsEmpty());
}

TEST_F(DamageTest, TruncatedLongerAndMissingFiles) {
  for (const std::string& name : names_) {
    const std::string good = content(newest(name));
    for (size_t size : {size_t{0}, size_t{1}, size_t{8}, good.size() / 2, good.size() - 1}) {
      write(newest(name), good.substr(0, size));
      expect_fallback(name);
    }
    write(newest(name), good + "x");
    expect_fallback(name);
    ASSERT_TRUE(files_.remove_file(newest(name)).ok());
    expect_fallback(name);
    const absl::Status missing = CheckpointReader::open(files_, folder_.at("latest")).status();
    EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
    write(newest(name), good);
  }
}

TEST_F(DamageTest, SwappedFilesAreFound) {
  const std::string first = content(newest(names_[1]));
  const std::string second = content(newest(names_[2]));
  ASSERT_EQ(first.size(), second.size()) << "or the sizes alone would tell";
  write(newest(names_[1]), second);
  write(newest(names_[2]), first);
  expect_fallback(names_[1]);
}

TEST_F(DamageTest, AFileOfAnotherStepIsFound) {
  FakeState other = state_;
  other.seed = 9;
  SaverOptions options;
  options.directory = folder_.at("other");
  options.world_size = 2;
  options.compute_type = ElementType::kBf16;
  ASSERT_TRUE(FakeJob::open(files_, options).value()->save(other, Step(2)).ok());
  write(newest(names_[2]), content(join_path(options.directory, "step-00000002/" + names_[2])));
  expect_fallback(names_[2]);
}

TEST_F(DamageTest, AnotherVersionIsNamed) {
  const std::string text = content(newest(kManifestName));
  const std::string body = text.substr(text.find('\n') + 1);
  write(newest(kManifestName),
        seal_manifest(absl::StrReplaceAll(body, {{"\"version\":1", "\"version\":7"}})));
  expect_fallback(kManifestName);
  const absl::Status opened = CheckpointReader::open(files_, folder_.path()).status();
  EXPECT_TRUE(absl::IsUnimplemented(opened));
  EXPECT_THAT(std::string(opened.message()), HasSubstr("has version 7"));
}

TEST_F(DamageTest, ReadingNamesFileOperatorAndPart) {
  std::string bad = content(newest(names_[2]));
  bad.back() ^= 1;  // exp_avg_sq of the last operator
  write(newest(names_[2]), bad);
  auto reader = CheckpointReader::open(files_, folder_.path()).value();
  std::vector<std::byte> into(64 * 4);
  EXPECT_TRUE(reader->read("layer.0.expert.1", StatePart::kMaster, {960, 1024}, into).ok());
  const absl::Status read =
      reader->read("layer.0.expert.1", StatePart::kExpAvgSq, {960, 1024}, into);
  EXPECT_TRUE(absl::IsDataLoss(read));
  EXPECT_THAT(std::string(read.message()),
              HasSubstr(newest(names_[2]) + ": operator layer.0.expert.1 exp_avg_sq"));
  EXPECT_TRUE(absl::IsDataLoss(reader->digest().status()));
}

TEST_F(DamageTest, NothingGoodLeftIsSaid) {
  for (Step step : {Step(1), Step(2)}) {
    ASSERT_TRUE(
        files_.remove_file(join_path(folder_.at(step_directory_name(step)), kManifestName)).ok());
  }
  const GoodCheckpoint found = open_newest_good(files_, folder_.path(), false);
  EXPECT_EQ(found.reader, nullptr);
  EXPECT_EQ(found.skipped.size(), 2u);
}

TEST_F(DamageTest, ADanglingLatestStillLeadsToTheNewest) {
  ASSERT_TRUE(replace_symlink(files_, "step-00000009", folder_.at("latest")).ok());
  EXPECT_EQ(CheckpointReader::open(files_, folder_.at("latest")).value()->position().step, Step(2));
}

}  // namespace
}  // namespace evermoe
