// What is done about a job that stands still: four workers in two stages, a step may take a minute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/controller/standstill_watch.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using Does = StandstillDecision::Kind;

class StandstillDecisions : public testing::Test {
 protected:
  StandstillDecisions() {
    for (int32_t r = 0; r < 4; ++r) roles_[Rank(r)].starvation.on_start();
    watch_.begin(absl::ZeroDuration());
    watch_.on_plan(absl::ZeroDuration());
  }
  StandstillDecision decides(double seconds) {
    return watch_.on_deadline(absl::Seconds(seconds),
                              {topology_, roles_, kView, progress_, /*is_loading=*/false});
  }
  void enter_view(std::vector<int32_t> ranks) {
    for (const int32_t r : ranks) roles_[Rank(r)].entered = kView;
  }
  StandstillDecision probes_and_decides() {
    EXPECT_EQ(decides(60).kind, Does::kProbe);
    watch_.on_stop();
    watch_.on_plan(absl::Seconds(60));
    return decides(65);
  }

  static constexpr View kView{7};
  const Topology topology_{{2, 2}, 2};
  const ControllerOptions options_;
  RoleTable roles_{4};
  JobProgress progress_;
  StandstillWatch watch_{options_};
};

TEST_F(StandstillDecisions, AViewShowsWhoMoves) {
  const StandstillDecision decision = decides(60);
  EXPECT_EQ(decision.kind, Does::kProbe);
  EXPECT_EQ(decision.why, "nothing has happened for 1m; a step takes 0");
}

TEST_F(StandstillDecisions, WhoDoesNotMoveIsReplaced) {
  enter_view({2, 3});
  const StandstillDecision decision = probes_and_decides();
  EXPECT_EQ(decision.kind, Does::kReplace);
  EXPECT_THAT(decision.still, ElementsAre(Rank(0), Rank(1)));
  EXPECT_EQ(decision.why, "hung: its stage does not move");
  EXPECT_FALSE(watch_.is_probe());
}

TEST_F(StandstillDecisions, WhereAllMoveAllGoBackFirstInMemoryThenToDisk) {
  enter_view({0, 1, 2, 3});
  for (int time = 0; time < StandstillWatch::kBackInMemoryMax; ++time)
    EXPECT_EQ(probes_and_decides().kind, Does::kGoBack) << time;
  EXPECT_EQ(probes_and_decides().kind, Does::kRestart) << "nothing has moved since";
  progress_.on_commit(Commit(0));
  EXPECT_EQ(probes_and_decides().kind, Does::kGoBack) << "at another place";
}

TEST_F(StandstillDecisions, TheMostStarvedOfThoseWhoAreWaitedForDecides) {
  roles_[Rank(2)].starvation.on_report(absl::Seconds(30), watch_.period());
  EXPECT_EQ(decides(60).kind, Does::kWait);
  EXPECT_EQ(decides(90).kind, Does::kProbe);
}

TEST_F(StandstillDecisions, InAProbeWhoMovesIsNotWaitedFor) {
  enter_view({2, 3});
  EXPECT_EQ(decides(60).kind, Does::kProbe);
  watch_.on_stop();
  watch_.on_plan(absl::Seconds(60));
  roles_[Rank(2)].starvation.on_report(absl::Seconds(3), watch_.period());
  EXPECT_EQ(decides(65).kind, Does::kReplace);
}

}  // namespace
}  // namespace evermoe
