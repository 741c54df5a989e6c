// Machines whose workers do not reach each other for a while, while the controller reaches all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sim/simulated_job_testing.h"

namespace evermoe {
namespace {

using Kind = SimulatedFault::Kind;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Rank r begins on node r; node 4 is a spare.
class CutWorkersTest : public SimulatedJobTest {
 protected:
  static SimulatedFault cut(int node, int peer, double at, double lasts,
                            Kind kind = Kind::kCutWorkers) {
    return {.kind = kind,
            .node = Node(node),
            .peer = Node(peer),
            .lasts = absl::Milliseconds(lasts),
            .time = absl::Milliseconds(at)};
  }
  static SimulatedFault unplug(int node, double at, double lasts, bool with_agent) {
    SimulatedFault fault = cut(node, 0, at, lasts, Kind::kUnplugNode);
    fault.with_agent = with_agent;
    return fault;
  }
  static std::string name_of(int rank) { return absl::StrCat(rank / 2, ".", rank % 2); }
  // The ends of connections wait for longer than any cut: the controller has to notice.
  void be_patient() {
    shape_.network.silence_min = absl::Hours(1);
    shape_.network.silence_max = absl::Hours(2);
  }
  // They miss each other long before the controller misses a step.
  void be_impatient() {
    shape_.network.silence_min = absl::Milliseconds(20);
    shape_.network.silence_max = absl::Milliseconds(60);
  }
};

TEST_F(CutWorkersTest, AShortCutCostsNothingButTime) {
  be_patient();
  for (const Kind kind : {Kind::kCutWorkers, Kind::kMuteWorkers}) {
    const SimulatedOutcome outcome = survives({cut(1, 3, 80, 150, kind)});
    EXPECT_THAT(outcome.recoveries, IsEmpty()) << explain(outcome);
    EXPECT_GT(outcome.duration, run().duration) << "it was in the way";
  }
}

TEST_F(CutWorkersTest, WhereTheStepsStopTheControllerMovesARole) {
  be_patient();
  const std::vector<std::pair<int, int>> pairs = {{0, 1}, {1, 0}, {0, 2}, {2, 0}, {3, 1}};
  for (const auto& [node, peer] : pairs) {
    for (const Kind kind : {Kind::kCutWorkers, Kind::kMuteWorkers}) {
      const SimulatedOutcome outcome = survives({cut(node, peer, 80, 2500, kind)});
      EXPECT_THAT(outcome.recoveries, Not(IsEmpty())) << explain(outcome);
      EXPECT_THAT(outcome.marks, Not(Contains("peer lost in silence")));
    }
  }
}

TEST_F(CutWorkersTest, EndsThatMissEachOtherTellIt) {
  be_impatient();
  const SimulatedOutcome outcome = survives({cut(0, 2, 80, 2500)});
  EXPECT_THAT(outcome.marks, Contains("peer lost in silence")) << explain(outcome);
  ASSERT_THAT(outcome.recoveries, Not(IsEmpty()));
  EXPECT_THAT(outcome.recoveries[0].causes.front(), HasSubstr("silent")) << explain(outcome);
}

TEST_F(CutWorkersTest, AnUnpluggedNodeIsReplacedAndComesBack) {
  shape_.model.steps = 60;
  const SimulatedOutcome outcome = survives({unplug(1, 80, 1500, true)});
  EXPECT_THAT(outcome.marks, Contains("spare takes over")) << explain(outcome);
}

TEST_F(CutWorkersTest, TheJobOutlastsANodeOfWhichOnlyTheAgentIsReached) {
  shape_.model.steps = 60;
  survives({unplug(1, 80, 1500, false)});
}

// All others have trouble with it, and it with all of them. Which of two it is cannot be told while
// only these complain of each other, and who waits in silence says nothing: of 800 such jobs a
// fifth lost a process of another node, too, one in fifty of all three, and in one to four nobody
// was found before the network was back.
TEST_F(CutWorkersTest, OfANodeWhoseWorkersReachNobodyTheRolesMove) {
  shape_.model.steps = 60;
  be_impatient();
  int innocent = 0, waits = 0, jobs = 0;
  for (int node = 0; node < 4; ++node) {
    for (double at = 80; at < 130; at += 5) {
      SCOPED_TRACE(absl::StrCat("node ", node, " at ", at, " ms"));
      const SimulatedOutcome outcome = survives({unplug(node, at, 8000, false)});
      ++jobs;
      if (outcome.duration >= absl::Seconds(8)) {
        ++waits;
        continue;
      }
      ASSERT_EQ(outcome.recoveries.size(), 1u) << explain(outcome);
      EXPECT_THAT(outcome.recoveries[0].roles, Contains(name_of(node))) << explain(outcome);
      EXPECT_THAT(outcome.marks, Contains("spare takes over")) << explain(outcome);
      EXPECT_LE(outcome.processes, 4 + 10) << explain(outcome);
      const auto is_another = [&](const auto& role) { return role != name_of(node); };
      innocent += std::ranges::any_of(outcome.recoveries[0].roles, is_another) ? 1 : 0;
    }
  }
  EXPECT_LE(3 * innocent, jobs) << "jobs in which another node lost a process";
  EXPECT_LE(waits, 1) << "jobs that waited for the network";
}

// Of 400 such jobs 89 to 105 lost a process of another node, too.
TEST_F(CutWorkersTest, WithoutASpareTheRolesOfSuchANodeWaitForItsNetwork) {
  shape_.model.steps = 60;
  shape_.spares = 0;
  be_impatient();
  int innocent = 0, jobs = 0;
  for (int node = 0; node < 4; ++node) {
    for (double at = 80; at < 130; at += 5) {
      const SimulatedOutcome outcome = survives({unplug(node, at, 3000, false)});
      EXPECT_LT(outcome.processes, 20) << explain(outcome);
      innocent += std::ranges::any_of(outcome.recoveries, [&](const RecoveryRecord& record) {
        return std::ranges::any_of(record.roles,
                                   [&](const auto& role) { return role != name_of(node); });
      });
      ++jobs;
    }
  }
  EXPECT_LE(2 * innocent, jobs) << "jobs in which another node lost a process";
}

TEST_F(CutWorkersTest, WithoutASpareTheRolesOfOneMachineMoveToTheOther) {
  shape_.nodes = 2;
  shape_.spares = 0;
  for (const Kind kind : {Kind::kCutWorkers, Kind::kMuteWorkers}) {
    survives({cut(0, 1, 80, 2500, kind)});
    survives({cut(1, 0, 80, 900, kind)});
  }
}

TEST_F(CutWorkersTest, WhileAStageCatchesUp) {
  shape_.copies = 2;
  for (int64_t passing = 1; passing <= 2; ++passing) {
    SimulatedFault fault = cut(1, 2, 0, 900);
    fault.point = "catch_up/step";
    fault.at_rank = Rank(0);
    fault.passing = passing;
    survives({kill(0, "step/forward", 15), fault});
  }
}

TEST_F(CutWorkersTest, WhileAViewOpensNewConnectionsWait) {
  be_patient();
  SimulatedFault fault = unplug(4, 0, 300, false);  // the spare, which gets the role
  fault.point = "recovery/opening";
  fault.at_rank = Rank(2);
  fault.passing = 1;
  const SimulatedOutcome outcome = survives({kill(0, "step/forward", 15), fault});
  EXPECT_GE(outcome.duration, run({kill(0, "step/forward", 15)}).duration);
}

}  // namespace
}  // namespace evermoe
