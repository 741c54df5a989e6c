#include "recovery/member/train/commit_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recovery/rank_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = CommitAgreement::Kind;

constexpr Commit kFirst = verdict_commit(Step(1));

class CommitAgreementTest : public RankTest {
 protected:
  // On every rank, in view 1 of a run whose windows have `slots` slots.
  void run_in_view_1(int ranks, int slots, const Body& body) {
    run(ranks, [&, slots](RankParts& rank) {
      rank.begin_run(slots);
      ASSERT_TRUE(rank.enter(plan(1).up_to(verdict_commit(Step(0)))).ok());
      body(rank);
    });
  }
};

TEST_F(CommitAgreementTest, TheWorldAddsUpWhatEveryoneFound) {
  run_in_view_1(3, 2, [](RankParts& rank) {
    const int r = rank.rank().value;
    rank.vote = [r](bool) { return WindowVote{.complete_window = Step(4 - r)}; };
    const auto record = rank.commits.agree(kFirst, Kind::kStep, {{1.0 + r}, {10 - r}});
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->combined, (Findings{{6}, {8}})) << "the votes are not part of the findings";
    EXPECT_EQ(record->complete_window, Step(2)) << "the oldest that anybody votes for";
    EXPECT_THAT(rank.agreed, ElementsAre(kFirst));
    EXPECT_TRUE(rank.commits.is_known(kFirst));
  });
}

TEST_F(CommitAgreementTest, AKnownRecordIsTakenWithoutAsking) {
  run_in_view_1(1, 2, [](RankParts& rank) {
    Record known;
    known.combined = {{42}, {}};
    ASSERT_TRUE(rank.memory.records.put(kFirst, encode(known)).ok());
    EXPECT_EQ(rank.commits.agree(kFirst, Kind::kStep, {{1}, {1}})->combined.sums[0], 42);
    EXPECT_THAT(rank.agreed, IsEmpty()) << "it was agreed on before";
  });
}

// No plan asks that of anybody, and whoever asked for it would do so for ever.
TEST_F(CommitAgreementTest, NobodyIsBehindTheRecordsThatAreKept) {
  const auto body = [this](RankParts& rank) {
    rank.begin_run(2);
    const Commit newest = verdict_commit(Step(3));
    ASSERT_TRUE(rank.memory.records.put(newest, encode(Record{.state = Step(3)})).ok());
    ASSERT_TRUE(rank.enter(plan(1).up_to(newest)).ok());
    (void)rank.commits.agree(kFirst, Kind::kStep, {{1}, {1}});
  };
  EXPECT_DEATH(run(1, body), "no record of commit");
}

TEST_F(CommitAgreementTest, WindowsChangeOnlyWhereOneBeginsAndToTheMostThatAnybodyWants) {
  run_in_view_1(2, 2, [](RankParts& rank) {
    const int wanted = 2 + rank.rank().value;
    rank.vote = [wanted](bool ends_window) {
      return WindowVote{.wanted_slots = ends_window ? wanted : 0, .slots_max = 8};
    };
    EXPECT_EQ(rank.commits.agree(kFirst, Kind::kStep, {{0}, {0}})->rule.slots, 2)
        << "inside a window";
    EXPECT_EQ(rank.commits.agree(evaluation_commit(Step(1)), Kind::kOther, {{0}, {0}})->rule.slots,
              2);
    EXPECT_EQ(rank.commits.agree(verdict_commit(Step(2)), Kind::kStep, {{0}, {0}})->rule,
              (WindowRule{Step(2), 3, 3}));
  });
}

TEST_F(CommitAgreementTest, NoWindowGetsMoreSlotsThanAnyRankHasMemoryFor) {
  run_in_view_1(2, 1, [](RankParts& rank) {
    const int slots_max = 5 - rank.rank().value;
    rank.vote = [slots_max](bool) { return WindowVote{.wanted_slots = 6, .slots_max = slots_max}; };
    EXPECT_EQ(rank.commits.agree(kFirst, Kind::kStep, {{0}, {0}})->rule.slots, 4);
  });
}

TEST_F(CommitAgreementTest, ACompleteWindowIsNeverTakenBack) {
  run_in_view_1(1, 2, [](RankParts& rank) {
    rank.vote = [](bool) { return WindowVote{.complete_window = Step(6)}; };
    EXPECT_EQ(rank.commits.agree(kFirst, Kind::kStep, {{0}, {0}})->complete_window, Step(6));
    rank.vote = [](bool) { return WindowVote{.complete_window = Step(-1)}; };
    EXPECT_EQ(rank.commits.agree(verdict_commit(Step(2)), Kind::kStep, {{0}, {0}})->complete_window,
              Step(6));
  });
}

// Rank 0 waits in view 1 for rank 1, which comes to the commit only in view 2.
TEST_F(CommitAgreementTest, AViewThatEndsUnderTheCallIsNoError) {
  run_in_view_1(2, 2, [this](RankParts& rank) {
    if (rank.rank() == Rank(1)) pause(absl::Milliseconds(20));
    rank.order(StopOrder{View(2)});
    rank.order(plan(2).up_to(verdict_commit(Step(0))).plan());
    const auto record = rank.commits.agree(kFirst, Kind::kStep, {{1}, {1}});
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->combined.sums[0], 2);
    EXPECT_THAT(rank.told.all<Trouble>(), IsEmpty()) << "that view was over";
  });
}

TEST_F(CommitAgreementTest, NobodyVotesForAStepBeforeItsCopiesAreAtTheHoldersOfTheView) {
  run_in_view_1(2, 2, [this](RankParts& rank) {
    std::vector<View> settled;
    rank.settle = [&] { return settled.push_back(rank.views.newest_view()), absl::OkStatus(); };
    if (rank.rank() == Rank(1)) pause(absl::Milliseconds(20));
    rank.order(StopOrder{View(2)});
    rank.order(plan(2).up_to(verdict_commit(Step(0))).plan());
    ASSERT_TRUE(rank.commits.agree(kFirst, Kind::kStep, {{1}, {1}}).ok());
    ASSERT_FALSE(settled.empty());
    EXPECT_EQ(settled.back(), View(2)) << "also where they were settled before";
    settled.clear();
    ASSERT_TRUE(rank.commits.agree(evaluation_commit(Step(1)), Kind::kOther, {{0}, {0}}).ok());
    EXPECT_THAT(settled, IsEmpty()) << "no step";
  });
}

// All have added up when the view ends: nobody may commit, and nobody loses what it found.
TEST_F(CommitAgreementTest, NothingIsCommittedInAViewThatHasBeenStopped) {
  run_in_view_1(1, 2, [this](RankParts& rank) {
    rank.views.stop(
        View(2));  // after the plan of view 1 was entered, before the commit is accepted
    EXPECT_FALSE(rank.views.accept(View(1), /*updates=*/true, [] { FAIL() << "committed"; }));
    rank.order(plan(2).up_to(verdict_commit(Step(0))).plan());
    EXPECT_EQ(rank.commits.agree(kFirst, Kind::kStep, {{7}, {0}})->combined.sums[0], 7);
  });
}

// Rank 1 missed the commit that rank 0 made in view 1.
TEST_F(CommitAgreementTest, WhoMissedACommitGetsItWithTheNextView) {
  run_in_view_1(2, 2, [this](RankParts& rank) {
    if (rank.rank() == Rank(0)) {
      Record made;
      made.combined = {{5}, {}};
      ASSERT_TRUE(rank.memory.records.put(kFirst, encode(made)).ok());
    }
    ASSERT_TRUE(rank.enter(plan(2).up_to(kFirst, /*record_source=*/0)).ok());
    const auto record = rank.commits.agree(kFirst, Kind::kStep, {{1}, {}});
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->combined.sums[0], 5);
    pause(absl::Seconds(1));  // rank 0 still answers
  });
}

// Rank 1 alone had the commit, and is lost before it gave it away.
TEST_F(CommitAgreementTest, ACommitThatIsLostWithAllThatHadItIsNotWaitedFor) {
  run_in_view_1(2, 2, [this](RankParts& rank) {
    if (rank.rank() == Rank(1)) return pause(absl::Seconds(1));
    ASSERT_TRUE(rank.enter(plan(2).up_to(kFirst, /*record_source=*/1)).ok());
    rank.order(StopOrder{View(3)});
    rank.order(plan(3).up_to(verdict_commit(Step(0))).plan());
    EXPECT_TRUE(rank.commits.fetch(kFirst, kFirst).ok());
    EXPECT_FALSE(rank.commits.is_known(kFirst));
  });
}

}  // namespace
}  // namespace evermoe
