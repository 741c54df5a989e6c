// Terms of a job's folder, and that nothing is saved in the name of one that is over.
#include "checkpoint/write/folder_term.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
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
  EXPECT_EQ(first, (FolderTerm{1, "a", "", 0}));
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
  // A thread that stood still gives up what it took long ago.
  EXPECT_GE(*all.rbegin(), kThreads * kTerms);
}

TEST_F(FolderTermTest, ADiskThatRefusesIsSaid) {
  ASSERT_TRUE(write_file_synced(real_files(), folder_.at("terms"), "").ok());
  EXPECT_FALSE(take_next_term(real_files(), folder_.path(), "a").ok());
}

TEST_F(FolderTermTest, OwnersDiffer) {
  EXPECT_NE(new_term_owner(), new_term_owner());
  EXPECT_LT(new_term_owner().size(), 256u);
}

// ---- hosts of one job, one after the other

class HostTermTest : public FolderTermTest {
 protected:
  FolderTerm host(const std::string& owner, const std::string& substance = "s") {
    const auto term =
        take_next_term(real_files(), folder_.path(), owner, new_job_name(substance),
                       [&](const std::string& job) { return is_job_of(job, substance); });
    EXPECT_TRUE(term.ok()) << term.status();
    return term.value_or(FolderTerm());
  }
  absl::Status check_member(const FolderTerm& known) const {
    return check_job(real_files(), folder_.path(), known);
  }
};

TEST_F(HostTermTest, TheNextOneHasTheJobAndOnlyTheHostBeforeItEnds) {
  const FolderTerm first = host("a");
  EXPECT_EQ(first.hosts_before, 0);
  const FolderTerm second = host("b");
  EXPECT_TRUE(is_same_job(first, second));
  EXPECT_EQ(second.hosts_before, 1);
  EXPECT_TRUE(is_replaced(check(first)));
  EXPECT_THAT(std::string(check(first).message()),
              HasSubstr("belongs to b, which has the job now"));
  EXPECT_TRUE(check(second).ok());
  EXPECT_TRUE(check_member(first).ok()) << "a worker that has not met the second host yet";
  EXPECT_TRUE(check_member(second).ok());
}

TEST_F(HostTermTest, WhoStandsStillWhileOthersTakeManyTakesTheNewest) {
  host("a");
  bool is_still = true;
  const auto term = take_next_term(real_files(), folder_.path(), "late", new_job_name("s"),
                                   [&](const std::string&) {
                                     if (std::exchange(is_still, false))
                                       for (int i = 0; i < 40; ++i) host("other");
                                     return true;
                                   });
  ASSERT_TRUE(term.ok()) << term.status();
  EXPECT_EQ(term->number, 42);
  EXPECT_TRUE(check(*term).ok());
}

TEST_F(HostTermTest, AnotherJobEndsMembersToo) {
  const FolderTerm first = host("a", "3 layers");
  const FolderTerm second = host("b", "4 layers");
  EXPECT_FALSE(is_same_job(first, second));
  EXPECT_EQ(second.hosts_before, 0);
  EXPECT_TRUE(is_hopeless(check(first)));
  EXPECT_TRUE(is_hopeless(check_member(first)));
  EXPECT_THAT(std::string(check_member(first).message()), HasSubstr("belongs to b"));
}

TEST(EndSinceTest, OnlyTheEndOfTheJobThatSomebodyCameFor) {
  const NewestTerm running{{.number = 3}, std::nullopt}, ended{{.number = 3}, "drained"};
  const NewestTerm another{{.number = 4}, "finished"};
  EXPECT_EQ(end_since(std::nullopt, running), std::nullopt);
  EXPECT_EQ(end_since(std::nullopt, ended), "drained");
  EXPECT_EQ(end_since(running, ended), "drained");
  EXPECT_EQ(end_since(ended, ended), std::nullopt) << "it comes to begin another job";
  EXPECT_EQ(end_since(ended, another), "finished");
}

TEST_F(HostTermTest, AJobThatHasEndedIsNotTakenOver) {
  const FolderTerm first = host("a");
  EXPECT_FALSE(newest_term(real_files(), folder_.path())->end.has_value());
  ASSERT_TRUE(mark_job_ended(real_files(), folder_.path(), first, "drained").ok());
  ASSERT_TRUE(mark_job_ended(real_files(), folder_.path(), first, "drained").ok()) << "twice";
  EXPECT_EQ(newest_term(real_files(), folder_.path())->end, "drained");
  const FolderTerm second = host("b");
  EXPECT_FALSE(is_same_job(first, second));
  EXPECT_FALSE(newest_term(real_files(), folder_.path())->end.has_value());
}

TEST_F(HostTermTest, WhoTookTheJobOverAsItEndedLearnsOfIt) {
  const FolderTerm first = host("a"), second = host("b");
  EXPECT_EQ(end_by_former(real_files(), folder_.path(), second), std::nullopt);
  ASSERT_TRUE(mark_job_ended(real_files(), folder_.path(), first, "drained").ok());
  EXPECT_EQ(end_by_former(real_files(), folder_.path(), second), "drained");
  EXPECT_EQ(end_by_former(real_files(), folder_.path(), first), std::nullopt) << "it has none";
  EXPECT_EQ(end_by_former(real_files(), folder_.path(), host("b2")), "drained");
  const FolderTerm another = host("c", "another");
  ASSERT_TRUE(mark_job_ended(real_files(), folder_.path(), second, "drained").ok());
  EXPECT_EQ(end_of(real_files(), folder_.path(), second), "drained");
  EXPECT_EQ(end_by_former(real_files(), folder_.path(), another), std::nullopt) << "of another job";
}

TEST_F(HostTermTest, WhoWasAwayForManyTermsKnowsItsJobAgain) {
  const FolderTerm first = host("a");
  for (int i = 0; i < 40; ++i) host(absl::StrCat("b", i));
  EXPECT_TRUE(check_member(first).ok());
  EXPECT_TRUE(is_replaced(check(first)));
  EXPECT_EQ(host("c").hosts_before, 41);
  host("d", "another");
  EXPECT_TRUE(is_hopeless(check_member(first)));
  EXPECT_TRUE(is_hopeless(check(first)));
}

TEST_F(HostTermTest, MembersOfADeletedFolderEnd) {
  const FolderTerm first = host("a");
  ASSERT_TRUE(remove_tree(real_files(), folder_.path()).ok());
  EXPECT_TRUE(is_hopeless(check_member(first)));
  ASSERT_TRUE(real_files().create_directories(folder_.path()).ok());
  host("b");
  EXPECT_TRUE(is_hopeless(check_member(first)));
}

TEST_F(HostTermTest, AFolderHasOneName) {
  const auto name = name_of_folder(real_files(), folder_.path());
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(name.value(), name_of_folder(real_files(), folder_.path()).value());
  host("a");
  EXPECT_EQ(name.value(), name_of_folder(real_files(), folder_.path()).value());
  ScratchFolder another;
  EXPECT_NE(name.value(), name_of_folder(real_files(), another.path()).value());
}

TEST_F(HostTermTest, ACopyOfAFolderHasAnotherName) {
  const std::string name = name_of_folder(real_files(), folder_.path()).value();
  const ScratchFolder place;
  std::filesystem::copy(
      folder_.path(), place.at("copy"),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  const std::string copied = name_of_folder(real_files(), place.at("copy")).value();
  EXPECT_NE(name, copied);
  EXPECT_EQ(copied, name_of_folder(real_files(), place.at("copy")).value());
  EXPECT_EQ(name, name_of_folder(real_files(), folder_.path()).value());
}

// What is saved here must not look older than a checkpoint that came from elsewhere.
TEST_F(HostTermTest, TermsBeginAboveThoseOfWhatWasBrought) {
  const auto next = [&](int64_t beyond) {
    return take_next_term(real_files(), folder_.path(), new_term_owner(), "", nullptr, beyond)
        ->number;
  };
  EXPECT_EQ(next(12), 13);
  EXPECT_EQ(next(40), 14) << "hosts look for the number after theirs";
}

TEST_F(HostTermTest, OwnersInsideALinkAreOnlyText) {
  const FolderTerm odd = take("who | job | host x");
  EXPECT_TRUE(check(odd).ok());
  EXPECT_EQ(newest_term(real_files(), folder_.path())->term, odd);
}

// ---- checkpoints

class FencedSaves : public FolderTermTest {
 protected:
  SaverOptions options(const FolderTerm& term) {
    SaverOptions options;
    options.directory = folder_.at("checkpoints");
    options.compute_type = state_.compute_type;
    options.term = [term] { return term; };
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

TEST_F(FencedSaves, NorDoesItSayWhichIsTheLatest) {
  const FolderTerm term = take("a");
  SaverOptions owned = options(term);
  int until_taken = -1;
  owned.may_write = [&] {
    if (until_taken-- == 0) take("b");
    return check(term);
  };
  auto job = FakeJob::open(real_files(), owned).value();
  ASSERT_TRUE(job->prepare(state_, state_.position(Step(3)), FakeCut::kEven).ok());
  until_taken = 2;  // asked at the beginning and before the renaming
  EXPECT_TRUE(is_hopeless(job->publish(Step(3))));
  EXPECT_TRUE(real_files().exists(folder_.at("checkpoints/step-00000003")));
  EXPECT_FALSE(real_files().exists(folder_.at("checkpoints/latest")));
}

TEST_F(FencedSaves, NorDoesItMakeAFolderAgainThatWasDeleted) {
  auto job = FakeJob::open(real_files(), options(take("a"))).value();
  ASSERT_TRUE(remove_tree(real_files(), folder_.path()).ok());
  EXPECT_TRUE(is_hopeless(job->prepare(state_, state_.position(Step(4)), FakeCut::kEven)));
  EXPECT_FALSE(real_files().exists(folder_.path()));
}

// Ranks hear of a new host one after the other. State is a function of the job alone, so what they
// save of one step belongs together whoever hosts it.
TEST_F(FencedSaves, PartsOfOneJobAreMergedAcrossItsTerms) {
  Manifest first, second;
  first.world_size = second.world_size = 2;
  first.files = {{"rank-0000.safetensors", 0, 16, 8, {}}};
  second.files = {{"rank-0001.safetensors", 1, 16, 8, {}}};
  first.job = second.job = "j";
  first.term = 1;
  first.term_owner = "a";
  second.term = 2;
  second.term_owner = "b";
  const std::vector<Manifest> parts = {first, second};
  const auto merged = merge_manifests(parts);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->term, 2) << "the newest that a member was told of";
  EXPECT_EQ(merged->term_owner, "b");
  second.job = "another";
  const std::vector<Manifest> strangers = {first, second};
  EXPECT_TRUE(absl::IsDataLoss(merge_manifests(strangers).status()));
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
