// How a rank gathers its window and goes back: window_fetch.h and restorer.h, with a peer that
// holds copies.
#include "recovery/member/restore/restorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/exit_codes.h"
#include "recovery/rank_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::MatchesRegex;
using testing::SizeIs;

constexpr int kSlots = 3;

// Rank 0 has run a window of 3 slots from step 0 and two steps more; rank 1 keeps its copies.
class RestorerTest : public RankTest {
 protected:
  RestorerTest() { trainer_.operators = kSlots; }

  PlanOf first_plan() const { return plan(1).up_to(verdict_commit(Step(0))).held_by(0, 1); }
  // Both ranks run 5 steps; rank 0 captures the window that begins with step 0.
  void train(RankParts& rank) {
    rank.begin_run(kSlots);
    ASSERT_TRUE(rank.enter(first_plan()).ok());
    for (int s = 0; s < 5; ++s) {
      const SlotTime time{Step(0), s};
      if (rank.rank() == Rank(0) && s < kSlots) {
        ASSERT_TRUE(rank.copies.capture(time, rank.window.position()).ok());
      }
      if (rank.rank() == Rank(0)) {
        ASSERT_TRUE(rank.copies.wait_settled().ok());
      }
      rank.step(ActiveOperators(kSlots, true));
    }
    if (rank.rank() == Rank(0)) {
      ASSERT_TRUE(rank.restorer.on_dense_state().ok());
    }
  }
  PlanOf rollback_plan() const {
    return plan(2).up_to(verdict_commit(Step(5))).back_to_window(0, {0}).from(0, {1}).held_by(0, 1);
  }
  void run_after_training(const Body& on_rank_0) {
    run(2, [&](RankParts& rank) {
      train(rank);
      if (rank.rank() == Rank(0))
        on_rank_0(rank);
      else
        serve_as_peer(rank);
    });
  }
  void serve_as_peer(RankParts& rank) {
    rank.order(StopOrder{View(2)});
    rank.order(rollback_plan().plan());
    pause(bytes_per_second_ == 0 ? absl::Seconds(5) : absl::Minutes(2));
  }
  // Slot after slot with the steps between them, then the steps that the job has made since.
  static void catch_up(RankParts& rank, int64_t to) {
    while (rank.trainer.step() < Step(to) || rank.restorer.is_restoring()) {
      if (rank.restorer.is_restoring()) {
        ASSERT_TRUE(rank.restorer.restore_next_slot().ok());
      }
      if (rank.trainer.step() < Step(to)) rank.step(rank.restorer.active());
    }
  }
};

TEST_F(RestorerTest, ASurvivorGoesBackFromItsOwnMemoryAndComesToTheSameBits) {
  run_after_training([&](RankParts& rank) {
    const std::vector<int64_t> before = rank.trainer.masters;
    EXPECT_EQ(before[0], TallyTrainer::after(5, 2));
    ASSERT_TRUE(rank.begin(rollback_plan()).ok());
    ASSERT_TRUE(rank.restorer.begin(rollback_plan().plan()).ok());
    const auto milestones = rank.told.all<Milestone>();
    EXPECT_THAT(milestones.back().sources, ElementsAre("window 0 from its own memory"));
    EXPECT_TRUE(rank.restorer.is_restoring());
    catch_up(rank, 5);
    EXPECT_EQ(rank.trainer.masters, before);
    ASSERT_TRUE(rank.restorer.on_dense_state().ok());
    EXPECT_EQ(rank.told.all<Milestone>().back().kind, Milestone::Kind::kVerified);
  });
}

TEST_F(RestorerTest, WhereNobodyGoesBackASurvivorKeepsItsStateAndMayGoBackLater) {
  run_after_training([&](RankParts& rank) {
    const std::vector<int64_t> before = rank.trainer.masters;
    const PlanOf renewal = plan(2).up_to(verdict_commit(Step(5))).renewing({0}).held_by(0, 1);
    ASSERT_TRUE(rank.begin(renewal).ok());
    ASSERT_TRUE(rank.restorer.begin(renewal.plan()).ok());
    EXPECT_TRUE(rank.restorer.has_kept_state());
    EXPECT_FALSE(rank.restorer.is_restoring());
    EXPECT_EQ(rank.trainer.masters, before);
    const PlanOf back =
        plan(3).up_to(verdict_commit(Step(5))).back_to_window(0, {0}).from(0, {1}).held_by(0, 1);
    ASSERT_TRUE(rank.begin(back).ok());
    ASSERT_TRUE(rank.restorer.begin(back.plan()).ok());
    EXPECT_FALSE(rank.gradients.is_behind()) << "it runs steps again";
    catch_up(rank, 5);
    EXPECT_EQ(rank.trainer.masters, before);
  });
}

// A process that was given what its predecessor kept, and has begun the job anew since, with all
// others: what it captures is its own, and its holders count on it.
TEST_F(RestorerTest, AfterARestartOfAllNothingIsInherited) {
  run_after_training([&](RankParts& rank) {
    rank.restorer.set_inherits();
    rank.restorer.begin_run();
    const SlotTime later{Step(kSlots), 0};
    ASSERT_TRUE(rank.copies.capture(later, rank.window.position()).ok());
    pause(absl::Milliseconds(100));
    ASSERT_TRUE(rank.begin(rollback_plan()).ok());
    ASSERT_TRUE(rank.restorer.begin(rollback_plan().plan()).ok());
    EXPECT_TRUE(rank.memory.store.has_slot(Rank(0), later));
  });
}

// What was given beside the training is of windows that the others may have freed since: who holds
// the role's copies would be sent them again while all wait for the next commit.
TEST_F(RestorerTest, OfWhatItWasGivenARoleKeepsTheWindowsThatTheJobGoesOnWith) {
  run(1, [&](RankParts& rank) {
    rank.begin_run(/*slots=*/1);
    ASSERT_TRUE(rank.enter(plan(1).up_to(verdict_commit(Step(0)))).ok());
    for (int s = 0; s <= 5; ++s) {
      ASSERT_TRUE(rank.copies.capture({Step(s), 0}, rank.window.position()).ok());
      ASSERT_TRUE(rank.copies.wait_captured().ok());
      rank.vote = [s](bool) { return WindowVote{.complete_window = Step(s - 1)}; };
      if (s < 5) rank.step(ActiveOperators(kSlots, true));
    }
    rank.restorer.begin_run();  // another process has the role
    rank.restorer.set_inherits();
    const PlanOf move = plan(2).up_to(verdict_commit(Step(5))).renewing({0});
    ASSERT_TRUE(rank.begin(move).ok());
    ASSERT_TRUE(rank.restorer.begin(move.plan()).ok());
    EXPECT_THAT(rank.memory.store.windows(Rank(0)), ElementsAre(Step(3), Step(4), Step(5)));
  });
}

TEST_F(RestorerTest, OperatorsBecomeActiveSlotBySlot) {
  run_after_training([&](RankParts& rank) {
    ASSERT_TRUE(rank.begin(rollback_plan()).ok());
    ASSERT_TRUE(rank.restorer.begin(rollback_plan().plan()).ok());
    std::vector<int64_t> active;
    for (int slot = 0; slot < kSlots; ++slot) {
      ASSERT_TRUE(rank.restorer.restore_next_slot().ok());
      EXPECT_EQ(rank.trainer.step(), Step(slot));
      active.push_back(
          std::count(rank.restorer.active().begin(), rank.restorer.active().end(), true));
      if (slot + 1 < kSlots) rank.step(rank.restorer.active());
    }
    EXPECT_TRUE(std::is_sorted(active.begin(), active.end()));
    EXPECT_LT(active[0], kSlots);
    EXPECT_LT(active[1], kSlots);
    EXPECT_EQ(active[2], kSlots);
    EXPECT_FALSE(rank.restorer.is_restoring());
  });
}

TEST_F(RestorerTest, OtherBitsThanBeforeAreAFaultOfHardwareOrSoftware) {
  run_after_training([&](RankParts& rank) {
    ASSERT_TRUE(rank.begin(rollback_plan()).ok());
    ASSERT_TRUE(rank.restorer.begin(rollback_plan().plan()).ok());
    catch_up(rank, 5);
    rank.trainer.masters[2] += 1;
    const absl::Status status = rank.restorer.on_dense_state();
    EXPECT_TRUE(is_contradiction(status));
    EXPECT_THAT(std::string(status.message()),
                MatchesRegex("step 5: operator operator.2, master weights and moments: "
                             "fingerprint [0-9a-f]{32} instead of [0-9a-f]{32}: what was .*"));
    EXPECT_EQ(exit_code(status), kExitHopeless);
    EXPECT_EQ(rank.witnesses.size(), 1u);
  });
}

TEST_F(RestorerTest, WhatIsLostComesFromTheHolder) {
  run_after_training([&](RankParts& rank) {
    const std::vector<int64_t> before = rank.trainer.masters;
    ASSERT_TRUE(rank.begin(rollback_plan()).ok());
    rank.memory.store.clear();
    ASSERT_TRUE(rank.restorer.begin(rollback_plan().plan()).ok());
    EXPECT_THAT(rank.told.all<Milestone>().back().sources, ElementsAre("window 0 from 0.1"));
    catch_up(rank, 5);
    EXPECT_EQ(rank.trainer.masters, before);
  });
}

// Copies go out and come back over lines on which a slot takes several times as long as members
// wait before they ask again. Asking again must not send again what is on its way or has come.
TEST_F(RestorerTest, OverASlowLineEverythingTravelsOnce) {
  int64_t bytes_of_fast = 0;
  for (const double speed : {0.0, 700.0, 200.0}) {
    bytes_per_second_ = speed;
    int64_t bytes = 0;
    run_after_training([&](RankParts& rank) {
      const std::vector<int64_t> before = rank.trainer.masters;
      ASSERT_TRUE(rank.begin(rollback_plan()).ok());
      rank.memory.store.clear();
      ASSERT_TRUE(rank.restorer.begin(rollback_plan().plan()).ok());
      bytes = bytes_sent();
      catch_up(rank, 5);
      EXPECT_EQ(rank.trainer.masters, before);
    });
    if (speed == 0) bytes_of_fast = bytes;
    EXPECT_GT(bytes, 0);
    EXPECT_LE(bytes, bytes_of_fast + bytes_of_fast / 4) << speed << " bytes/s";
  }
}

TEST_F(RestorerTest, ADamagedSlotOfItsOwnIsFetched) {
  run_after_training([&](RankParts& rank) {
    ASSERT_TRUE(rank.begin(rollback_plan()).ok());
    EXPECT_GT(rank.memory.store.corrupt(Rank(0)), 0);
    ASSERT_TRUE(rank.restorer.begin(rollback_plan().plan()).ok());
    EXPECT_THAT(rank.told.all<Milestone>().back().sources, ElementsAre("window 0 from 0.1"));
  });
}

TEST_F(RestorerTest, RecordsThatAreLostComeWithTheView) {
  run_after_training([&](RankParts& rank) {
    const PlanOf from_peer = rollback_plan().up_to(verdict_commit(Step(5)), /*record_source=*/1);
    ASSERT_TRUE(rank.begin(from_peer).ok());
    rank.memory.records.clear();
    ASSERT_TRUE(rank.restorer.begin(from_peer.plan()).ok());
    EXPECT_TRUE(rank.commits.is_known(verdict_commit(Step(5))));
  });
}

// The holder's copies are damaged, too: the controller is told, and the next plan sends the stage
// to the base.
TEST_F(RestorerTest, WithoutAUsableCopyTheControllerHasToFindAnotherWay) {
  run(2, [&](RankParts& rank) {
    train(rank);
    if (rank.rank() == Rank(1)) {
      rank.memory.store.corrupt(Rank(0));
      return serve_as_peer(rank);
    }
    rank.memory.store.clear();
    rank.told.on_message = [&](const MemberMessage& message) {
      const auto* const trouble = std::get_if<Trouble>(&message);
      if (trouble == nullptr || !trouble->copies_unusable) return;
      rank.order(StopOrder{View(3)});
      rank.order(plan(3).up_to(verdict_commit(Step(5))).back_to_base({0}).plan());
    };
    ASSERT_TRUE(rank.begin(rollback_plan()).ok());
    EXPECT_TRUE(absl::IsCancelled(rank.restorer.begin(rollback_plan().plan())))
        << "it has to go back again";
    EXPECT_EQ(rank.counts.work().copies_refused, kSlots);
    EXPECT_THAT(rank.told.all<Trouble>(), SizeIs(1));
    const auto next = rank.views.next_start();
    ASSERT_TRUE(next.ok() && *next != nullptr);
    ASSERT_TRUE(rank.restorer.begin(**next).ok());
    EXPECT_THAT(rank.told.all<Milestone>().back().sources, ElementsAre("the state at step 0"));
    EXPECT_FALSE(rank.restorer.is_restoring());
    catch_up(rank, 5);
    EXPECT_EQ(rank.trainer.masters[0], TallyTrainer::after(5, 2));
    EXPECT_TRUE(rank.restorer.on_dense_state().ok())
        << "the state before both rollbacks was noted once";
    EXPECT_EQ(rank.told.all<Milestone>().back().kind, Milestone::Kind::kVerified);
  });
}

// To end the process would not bring it back: the next one would end, too.
TEST_F(RestorerTest, WithoutAUsableBaseTheControllerHasToFindAnotherWay) {
  for (const absl::Status& damage : {NotFound("no such checkpoint"), Corrupt("a bit differs")}) {
    run(1, [&](RankParts& rank) {
      rank.begin_run(kSlots);
      ASSERT_TRUE(rank.enter(plan(1).up_to(verdict_commit(Step(0)))).ok());
      rank.trainer.base_damage = damage;
      rank.told.on_message = [&](const MemberMessage& message) {
        const auto* const trouble = std::get_if<Trouble>(&message);
        if (trouble == nullptr || !trouble->copies_unusable) return;
        EXPECT_EQ(trouble->what, absl::StrCat("the state at step 0: ", damage.message()));
        rank.order(StopOrder{View(3)});
        rank.order(plan(3).restarting_all().plan());
      };
      const PlanOf back = plan(2).up_to(verdict_commit(Step(0))).back_to_base({0});
      ASSERT_TRUE(rank.begin(back).ok());
      EXPECT_TRUE(absl::IsCancelled(rank.restorer.begin(back.plan())));
      EXPECT_THAT(rank.told.all<Trouble>(), SizeIs(1));
      const auto next = rank.views.next_start();
      EXPECT_TRUE(next.ok() && *next != nullptr && (*next)->restart_all);
    });
  }
}

// Another failure ends the view before the controller has heard of the damage; by the next plan
// this rank stays where it is.
TEST_F(RestorerTest, AViewThatEndsUnderAnUnusableBaseIsNoReasonToEnd) {
  run(1, [&](RankParts& rank) {
    rank.begin_run(kSlots);
    ASSERT_TRUE(rank.enter(plan(1).up_to(verdict_commit(Step(0)))).ok());
    rank.trainer.base_damage = NotFound("no such checkpoint");
    std::vector<View> told;
    rank.told.on_message = [&](const MemberMessage& message) {
      const auto* const trouble = std::get_if<Trouble>(&message);
      if (trouble == nullptr || !trouble->copies_unusable) return;
      told.push_back(trouble->view);
      const View next(trouble->view.value + 1);
      rank.order(StopOrder{next});
      PlanOf ordered = plan(next.value).up_to(verdict_commit(Step(0)));
      rank.order(next == View(3) ? ordered.plan() : ordered.restarting_all().plan());
    };
    const PlanOf back = plan(2).up_to(verdict_commit(Step(0))).back_to_base({0});
    ASSERT_TRUE(rank.begin(back).ok());
    EXPECT_TRUE(absl::IsCancelled(rank.restorer.begin(back.plan())));
    EXPECT_THAT(told, ElementsAre(View(2), View(3)));
  });
}

}  // namespace
}  // namespace evermoe
