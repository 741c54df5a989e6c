// A process that played rank 0 before, and wakes up beside its successor, changes nothing.
#include "checkpoint/write/publisher_claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/fake_state_testing.h"
#include "env/faulty_files.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PublisherClaimTest : public testing::Test {
 protected:
  PublisherClaimTest() { EXPECT_TRUE(real_files().create_directories(folder_.at("terms")).ok()); }

  PublisherClaim claim(int64_t term, int64_t start, const std::string& job = "j",
                       Files& files = real_files()) const {
    return {files, folder_.path(), FolderTerm{term, "host", job, 0}, start};
  }
  std::string said() const {
    return real_files().read_symlink(folder_.at("terms/publisher")).value_or("nothing");
  }

  ScratchFolder folder_;
};

TEST_F(PublisherClaimTest, TheOneThatWasStartedLastHasIt) {
  const PublisherClaim first = claim(2, 7), second = claim(2, 9);
  EXPECT_TRUE(first.hold().ok());
  EXPECT_TRUE(first.hold().ok());
  EXPECT_EQ(said(), "start 7 of term 2 | job j");
  EXPECT_TRUE(second.hold().ok());
  EXPECT_TRUE(is_replaced(first.hold()));
  EXPECT_THAT(std::string(first.hold().message()), HasSubstr("start 9 of term 2, this is start 7"));
  EXPECT_TRUE(second.hold().ok());
  EXPECT_TRUE(is_replaced(claim(2, 8).hold()))
      << "that it comes later does not make it a later one";
}

// Members hear of a new host one after the other, and processes that live keep their number.
TEST_F(PublisherClaimTest, TheTermDoesNotMatterWithinAJob) {
  EXPECT_TRUE(claim(3, 9).hold().ok());
  EXPECT_TRUE(is_replaced(claim(4, 8).hold()));
  EXPECT_TRUE(claim(2, 10).hold().ok());
}

TEST_F(PublisherClaimTest, ThoseOfOtherJobsDoNotCount) {
  EXPECT_TRUE(claim(2, 9, "former").hold().ok());
  EXPECT_TRUE(claim(3, 1).hold().ok());
  EXPECT_EQ(said(), "start 1 of term 3 | job j");
  EXPECT_TRUE(claim(4, 5, "").hold().ok());
  EXPECT_TRUE(claim(5, 1, "").hold().ok()) << "a job without a name has one term";
  EXPECT_TRUE(claim(5, 2, "").hold().ok());
  EXPECT_TRUE(is_replaced(claim(5, 1, "").hold()));
}

TEST_F(PublisherClaimTest, WhatIsNoClaimIsReplaced) {
  for (const char* text :
       {"x", "start 9 of term 2", "start x of term 2 | job j",
        "start 99999999999999999999 of term 2 | job j", "start 09 of term 2 | job j"}) {
    ASSERT_TRUE(replace_symlink(real_files(), text, folder_.at("terms/publisher")).ok());
    EXPECT_TRUE(claim(2, 7).hold().ok()) << text;
    EXPECT_EQ(said(), "start 7 of term 2 | job j");
  }
}

// Between its look and its renaming the former one stood still.
TEST_F(PublisherClaimTest, ALaterOneTakesItBackFromAnEarlierOne) {
  const PublisherClaim later = claim(2, 9);
  ASSERT_TRUE(later.hold().ok());
  ASSERT_TRUE(
      replace_symlink(real_files(), "start 7 of term 2 | job j", folder_.at("terms/publisher"))
          .ok());
  EXPECT_TRUE(later.hold().ok());
  EXPECT_TRUE(is_replaced(claim(2, 7).hold()));
}

TEST_F(PublisherClaimTest, WithoutATermOrANumberNobodyLooks) {
  EXPECT_TRUE(claim(2, 9).hold().ok());
  EXPECT_TRUE(claim(0, 1).hold().ok());
  EXPECT_TRUE(claim(2, 0).hold().ok());
  EXPECT_EQ(said(), "start 9 of term 2 | job j");
}

TEST_F(PublisherClaimTest, WhatTheDiskRefusesIsNoAnswer) {
  FaultyFiles full(real_files(), {.fault = FileFault::kNoSpace, .first = 1});
  EXPECT_TRUE(absl::IsResourceExhausted(claim(2, 9, "j", full).hold()));
  FaultyFiles stale(real_files(), {.fault = FileFault::kStale});
  EXPECT_TRUE(absl::IsInternal(claim(2, 9, "j", stale).hold()));
  EXPECT_EQ(said(), "nothing");
}

// ---- checkpoints

class ClaimedSavesTest : public PublisherClaimTest {
 protected:
  std::unique_ptr<FakeJob> job(int64_t start, Step pinned = Step(-1)) {
    SaverOptions options = options_of(start);
    options.pinned = pinned;
    return FakeJob::open(real_files(), options).value();
  }
  SaverOptions options_of(int64_t start) {
    SaverOptions options;
    options.directory = folder_.at("checkpoints");
    options.world_size = 2;
    options.compute_type = state_.compute_type;
    options.keep_newest = 1;
    options.keep_best = 0;
    options.joins_others = true;
    options.may_publish = [claim = claim(1, start)] { return claim.hold(); };
    return options;
  }
  absl::Status prepare(FakeJob& job, int64_t step) {
    return job.prepare(state_, state_.position(Step(step)), FakeCut::kEven);
  }
  std::string latest() const {
    return real_files().read_symlink(folder_.at("checkpoints/latest")).value_or("nothing");
  }
  std::vector<std::string> names() const {
    return real_files().list(folder_.at("checkpoints")).value();
  }

  FakeState state_;
};

// It was asked to publish step 10 and stood still; its successor has done that and gone on.
TEST_F(ClaimedSavesTest, LatestNeverFallsBackBehindWhatTheSuccessorHasPublished) {
  const auto former = job(1);
  ASSERT_TRUE(prepare(*former, 10).ok());
  const auto successor = job(2, /*pinned=*/Step(10));
  ASSERT_TRUE(successor->publish(Step(10)).ok());
  ASSERT_TRUE(successor->save(state_, Step(20)).ok());
  ASSERT_EQ(latest(), "step-00000020");
  EXPECT_TRUE(is_replaced(former->publish(Step(10))));
  EXPECT_EQ(latest(), "step-00000020");
  EXPECT_EQ(former->rank(0).published(), Step(-1));
}

// All have gone back to step 5, of which the former one knows nothing.
TEST_F(ClaimedSavesTest, NorIsAnythingRemovedThatTheSuccessorKeeps) {
  const auto former = job(1, /*pinned=*/Step(5));
  ASSERT_TRUE(former->save(state_, Step(5)).ok());
  former->rank(0).unpin();
  ASSERT_TRUE(prepare(*former, 10).ok());
  const auto successor = job(2, /*pinned=*/Step(5));
  ASSERT_TRUE(prepare(*successor, 8).ok());
  EXPECT_TRUE(is_replaced(former->publish(Step(10))));
  EXPECT_THAT(names(),
              ElementsAre("latest", "step-00000005", "step-00000008.tmp", "step-00000010.tmp"));
  ASSERT_TRUE(successor->publish(Step(8)).ok());
  EXPECT_EQ(latest(), "step-00000008");
}

// Wherever between two of its looks the former one stood still.
TEST_F(ClaimedSavesTest, WhoIsReplacedWhileItPublishesGoesNoFurther) {
  for (int looks = 1; looks <= 4; ++looks) {
    SCOPED_TRACE(looks);
    const int64_t start = 2 * looks;
    int left = -1;
    SaverOptions options = options_of(start);
    options.may_publish = [&, own = claim(1, start), later = claim(1, start + 1)] {
      if (left-- == 0) {
        EXPECT_TRUE(later.hold().ok());
      }
      return own.hold();
    };
    ASSERT_TRUE(remove_tree(real_files(), folder_.at("checkpoints")).ok());
    const auto former = FakeJob::open(real_files(), options).value();
    ASSERT_TRUE(former->save(state_, Step(5)).ok());
    ASSERT_TRUE(prepare(*former, 10).ok());
    left = looks - 1;
    EXPECT_TRUE(is_replaced(former->publish(Step(10))));
    EXPECT_EQ(real_files().exists(folder_.at("checkpoints/step-00000010")), looks > 2);
    EXPECT_EQ(latest(), looks > 3 ? "step-00000010" : "step-00000005");
    EXPECT_TRUE(real_files().exists(folder_.at("checkpoints/step-00000005"))) << "not removed";
  }
}

TEST_F(ClaimedSavesTest, WhoComesTooLateDoesNotBegin) {
  const auto successor = job(2);
  EXPECT_TRUE(is_replaced(FakeJob::open(real_files(), options_of(1)).status()));
}

// A job that begins again on a full disk trains on, and publishes when there is room.
TEST_F(ClaimedSavesTest, AFullDiskThatRefusesTheClaimIsOutlived) {
  FaultyFiles full(real_files(), {.fault = FileFault::kNoSpace, .first = 1, .last = 4});
  SaverOptions options = options_of(1);
  options.joins_others = false;
  options.may_publish = [claim = claim(1, 1, "j", full)] { return claim.hold(); };
  auto job = FakeJob::open(real_files(), options);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(prepare(**job, 10).ok());
  EXPECT_TRUE(absl::IsResourceExhausted((*job)->publish(Step(10))));
  EXPECT_EQ(latest(), "nothing");
  while (full.operation_count() < 5) (void)full.read_symlink(folder_.at("terms/publisher"));
  const absl::Status published = (*job)->publish(Step(10));
  EXPECT_TRUE(published.ok()) << published;
  EXPECT_EQ(latest(), "step-00000010");
}

}  // namespace
}  // namespace evermoe
