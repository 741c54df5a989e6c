#include "control/controller/recovery_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::Optional;

using Kind = Milestone::Kind;

class Journal : public testing::Test {
 protected:
  std::optional<std::string> milestone(int rank, Kind kind, int64_t again = 0,
                                       Step step = Step(-1)) {
    Milestone one{View(2), Rank(rank), kind};
    one.recomputed_steps = again;
    one.step = step;
    return journal_.on_milestone(now_ += absl::Seconds(1), one);
  }
  void loses(int rank) { journal_.on_loss(now_, verdict_commit(Step(7)), Rank(rank), "killed"); }
  void plans(std::vector<int> rolled_back, bool restart_all = false) {
    Plan plan;
    plan.view = View(2);
    plan.rolled_back = std::move(rolled_back);
    plan.restart_all = restart_all;
    journal_.on_plan(now_, plan);
  }

  absl::Duration now_ = absl::Seconds(100);
  const Topology topology_{{2, 2}, 2};
  RecoveryJournal journal_{topology_};
};

TEST_F(Journal, LossesBeforeTheJobGoesOnAreOneRecovery) {
  EXPECT_EQ(journal_.incident(), 0);
  loses(1);
  loses(2);
  EXPECT_EQ(journal_.incident(), 1);
  journal_.on_resumed(now_);
  EXPECT_EQ(journal_.incident(), 0);
  loses(3);
  EXPECT_EQ(journal_.incident(), 2);
  EXPECT_THAT(journal_.records()[0].roles, ElementsAre("0.1", "1.0"));
  EXPECT_EQ(journal_.records()[0].step, Step(7));
  EXPECT_THAT(journal_.records()[1].causes, ElementsAre("1.1: killed"));
}

TEST_F(Journal, AStageIsToldOnceWhenItsLastRankIsThere) {
  loses(1);
  plans({0});
  EXPECT_TRUE(journal_.is_loading());
  EXPECT_EQ(milestone(0, Kind::kRestored), std::nullopt);
  EXPECT_THAT(milestone(1, Kind::kRestored), Optional(std::string("stage 0 has a state again")));
  EXPECT_EQ(milestone(1, Kind::kRestored), std::nullopt);
  EXPECT_FALSE(journal_.is_loading());
  milestone(0, Kind::kVerified);
  EXPECT_EQ(milestone(0, Kind::kCaughtUp, 3), std::nullopt);
  EXPECT_THAT(milestone(1, Kind::kCaughtUp, 3),
              Optional(std::string(
                  "stage 0 has caught up: 3 steps run again; 1 survivor verified bit-identical")));
  EXPECT_EQ(journal_.records()[0].recomputed_steps, 3);
  EXPECT_EQ(journal_.records()[0].caught_up, now_);
}

TEST_F(Journal, WorkOfSurvivorsIsCountedApart) {
  loses(1);
  plans({0});
  milestone(1, Kind::kStepAgain, 3);
  EXPECT_EQ(journal_.records()[0].survivor_recomputed_steps, 0);
  milestone(0, Kind::kStepAgain, 2);
  EXPECT_EQ(journal_.records()[0].survivor_recomputed_steps, 2);
  EXPECT_EQ(journal_.records()[0].recomputed_steps, 3);
}

TEST_F(Journal, StepsThatRunAgainAreToldNowAndThen) {
  loses(1);
  plans({0});
  EXPECT_EQ(milestone(0, Kind::kStepAgain, 1), std::nullopt) << "soon after the plan";
  EXPECT_EQ(milestone(1, Kind::kStepAgain, 1), std::nullopt);
  EXPECT_THAT(milestone(0, Kind::kStepAgain, 2),
              Optional(std::string("stage 0 catches up, 2 steps so far")));
  EXPECT_EQ(milestone(0, Kind::kStepAgain, 3), std::nullopt);
}

// The run has the record alone to know it from: what its workers say comes on another way, before
// the record or after it.
TEST_F(Journal, TheStepThatAllStartAgainFromIsInTheRecord) {
  loses(1);
  plans({}, /*restart_all=*/true);
  EXPECT_EQ(journal_.records()[0].restarted_from, Step(-1));
  milestone(0, Kind::kRestored, 0, Step(5));
  EXPECT_EQ(journal_.records()[0].restarted_from, Step(5));
}

TEST_F(Journal, AStageThatGoesBackIsNoRestart) {
  loses(1);
  plans({0});
  milestone(0, Kind::kRestored, 0, Step(5));
  EXPECT_EQ(journal_.records()[0].restarted_from, Step(-1));
}

// The first plan of a job loads as well, and no recovery is under way.
TEST_F(Journal, WithoutARecoveryOnlyLoadingIsFollowed) {
  plans({}, /*restart_all=*/true);
  EXPECT_TRUE(journal_.is_loading());
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(milestone(rank, Kind::kRestored), std::nullopt);
  EXPECT_FALSE(journal_.is_loading());
  EXPECT_TRUE(journal_.records().empty());
}

TEST_F(Journal, ItsChangesAreCounted) {
  int64_t known = journal_.changes();
  const auto has_changed = [&] {
    const int64_t before = std::exchange(known, journal_.changes());
    return before < known;
  };
  EXPECT_FALSE((plans({}, /*restart_all=*/true), has_changed())) << "no recovery is under way";
  EXPECT_TRUE((loses(1), has_changed()));
  EXPECT_TRUE((plans({0}), has_changed()));
  EXPECT_TRUE((milestone(1, Kind::kRestored), has_changed()));
  EXPECT_FALSE((milestone(0, Kind::kOpened), has_changed()));
  EXPECT_TRUE((milestone(1, Kind::kStepAgain, 2), has_changed()));
  EXPECT_TRUE((milestone(0, Kind::kStepAgain, 2), has_changed())) << "of a survivor";
  EXPECT_FALSE((milestone(1, Kind::kStepAgain, 1), has_changed()));
  EXPECT_TRUE((milestone(0, Kind::kCaughtUp, 2), has_changed()));
  EXPECT_TRUE((milestone(0, Kind::kVerified), has_changed()));
  EXPECT_TRUE((journal_.on_resumed(now_), has_changed()));
  EXPECT_FALSE((milestone(1, Kind::kVerified), has_changed())) << "it is over";
  EXPECT_FALSE((journal_.on_resumed(now_), has_changed()));
}

TEST_F(Journal, AFailureDuringTheRecoveryAddsToIt) {
  loses(1);
  plans({0});
  loses(3);
  plans({0, 1}, /*restart_all=*/true);
  const RecoveryRecord& record = journal_.records()[0];
  EXPECT_THAT(record.rolled_back_stages, ElementsAre(0, 1));
  EXPECT_EQ(record.restarts, 1);
  EXPECT_EQ(record.views.size(), 2u);
}

}  // namespace
}  // namespace evermoe
