// Terms of a job's folder, and that nothing is saved in the name of one that is over.
#include "checkpoint/write/folder_term.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/fake_state_testing.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

class FolderTermTest : public testing::Test {
 protected:
  FolderTerm take(const std::string& owner) {
    const auto term = take_next_term(real_files(), folder_.path(), owner);
    EXPECT_TRUE(term.ok()) << term.status();
    return term.value_or(FolderTerm());
  }
  absl::Status check(const FolderTerm& term) const {
    return check_term(real_files(), folder_.path(), term);
  }

  ScratchFolder folder_;
};

TEST_F(FolderTermTest, TheNewestOneMayAct) {
  const FolderTerm first = take("a");
  EXPECT_EQ(first, (FolderTerm{1, "a"}));
  EXPECT_TRUE(check(first).ok());
  const FolderTerm second = take("b");
  EXPECT_EQ(second.number, 2);
  EXPECT_TRUE(check(second).ok());
  EXPECT_TRUE(is_hopeless(check(first)));
  EXPECT_THAT(std::string(check(first).message()), HasSubstr("term 2 belongs to b"));
  EXPECT_TRUE(check(FolderTerm()).ok()) << "who has none is not looked after";
}

TEST_F(FolderTermTest, AFolderThatWasDeletedIsNobodysAnyMore) {
  const FolderTerm first = take("a");
  ASSERT_TRUE(remove_tree(real_files(), folder_.path()).ok());
  EXPECT_TRUE(is_hopeless(check(first)));
  EXPECT_THAT(std::string(check(first).message()), HasSubstr("has been deleted"));
  ASSERT_TRUE(real_files().create_directories(folder_.path()).ok());
  const FolderTerm again = take("b");
  EXPECT_EQ(again.number, 1);
  EXPECT_TRUE(is_hopeless(check(first)));
  EXPECT_THAT(std::string(check(first).message()), HasSubstr("is used by b"));
}

TEST_F(FolderTermTest, NoTwoHaveTheSame) {
  constexpr int kThreads = 8, kTerms = 10;
  std::vector<std::vector<int64_t>> taken(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTerms; ++i) {
        const auto term = take_next_term(real_files(), folder_.path(), absl::StrCat(t, ".", i));
        if (term.ok()) taken[static_cast<size_t>(t)].push_back(term->number);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<int64_t> all;
  for (const auto& numbers : taken) {
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
    all.insert(numbers.begin(), numbers.end());
  }
  EXPECT_EQ(all.size(), static_cast<size_t>(kThreads * kTerms));
  EXPECT_EQ(*all.rbegin(), kThreads * kTerms);
}

TEST_F(FolderTermTest, ADiskThatRefusesIsSaid) {
  ASSERT_TRUE(write_file_synced(real_files(), folder_.at("terms"), "").ok());
  EXPECT_FALSE(take_next_term(real_files(), folder_.path(), "a").ok());
}

TEST_F(FolderTermTest, OwnersDiffer) {
  EXPECT_NE(new_term_owner(), new_term_owner());
  EXPECT_LT(new_term_owner().size(), 256u);
}

// ---- checkpoints

class FencedSaves : public FolderTermTest {
 protected:
  SaverOptions options(const FolderTerm& term) {
    SaverOptions options;
    options.directory = folder_.at("checkpoints");
    options.compute_type = state_.compute_type;
    options.term = term;
    options.may_write = [this, term] { return check(term); };
    return options;
  }
  FakeState state_;
};

TEST_F(FencedSaves, TheManifestNamesTheTerm) {
  auto job = FakeJob::open(real_files(), options(take("a"))).value();
  ASSERT_TRUE(job->prepare(state_, state_.position(Step(3)), FakeCut::kEven).ok());
  ASSERT_TRUE(job->publish(Step(3)).ok());
  const auto text =
      read_file(real_files(), folder_.at("checkpoints/step-00000003/manifest.json"), 1 << 20);
  EXPECT_THAT(text.value(), HasSubstr("\"term\":{\"number\":1,\"owner\":\"a\"}"));
  const auto parsed = parse_manifest(*text, ManifestKind::kCheckpoint, "m");
  EXPECT_EQ(parsed->term, 1);
  EXPECT_EQ(parsed->term_owner, "a");
}

TEST_F(FencedSaves, AnOldTermPublishesNothing) {
  auto job = FakeJob::open(real_files(), options(take("a"))).value();
  ASSERT_TRUE(job->prepare(state_, state_.position(Step(3)), FakeCut::kEven).ok());
  take("b");
  EXPECT_TRUE(is_hopeless(job->publish(Step(3))));
  EXPECT_FALSE(real_files().exists(folder_.at("checkpoints/step-00000003")));
  EXPECT_TRUE(is_hopeless(job->prepare(state_, state_.position(Step(4)), FakeCut::kEven)));
  EXPECT_FALSE(real_files().exists(folder_.at("checkpoints/step-00000004.tmp")));
}

TEST_F(FencedSaves, NorDoesItMakeAFolderAgainThatWasDeleted) {
  auto job = FakeJob::open(real_files(), options(take("a"))).value();
  ASSERT_TRUE(remove_tree(real_files(), folder_.path()).ok());
  EXPECT_TRUE(is_hopeless(job->prepare(state_, state_.position(Step(4)), FakeCut::kEven)));
  EXPECT_FALSE(real_files().exists(folder_.path()));
}

// What an old run left and a new one finds are no checkpoint together.
TEST_F(FencedSaves, PartsOfDifferentTermsAreNotMerged) {
  Manifest first, second;
  first.world_size = second.world_size = 2;
  first.files = {{"rank-0000.safetensors", 0, 16, 8, {}}};
  second.files = {{"rank-0001.safetensors", 1, 16, 8, {}}};
  first.term = 1;
  second.term = 2;
  const std::vector<Manifest> parts = {first, second};
  const auto merged = merge_manifests(parts);
  EXPECT_TRUE(absl::IsDataLoss(merged.status()));
  EXPECT_THAT(std::string(merged.status().message()), HasSubstr("saved different terms"));
}

}  // namespace
}  // namespace evermoe
