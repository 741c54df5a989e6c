// Links that are slower than usual, in whole jobs: they are named, and no role is; and where a role
// is slow no link is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sim/simulated_job_testing.h"

namespace evermoe {
namespace {

using testing::IsEmpty;

// Each role on a node of its own. Steps of 4 ms and more.
class SimulatedSlowLinks : public SimulatedJobTest {
 protected:
  using Link = std::pair<int, int>;

  SimulatedSlowLinks() {
    shape_.model.steps = 200;
    shape_.computing = absl::Milliseconds(4);
    shape_.stragglers = {.for_steps = 8, .look = absl::Milliseconds(20)};
    shape_.probes.pause = shape_.probes.pair_pause = absl::Milliseconds(1);
    shape_.probes.bulk_pauses = 0;
  }
  static SimulatedFault slow(int from, int to, absl::Duration at) {
    SimulatedFault fault{.kind = SimulatedFault::Kind::kSlowLink};
    fault.node = Node(from);
    fault.peer = Node(to);
    fault.time = at;
    return fault;
  }
  static std::set<Link> named(const SimulatedOutcome& outcome) {
    std::set<Link> links;
    for (const SlowLinkFound& found : outcome.slow_links) {
      EXPECT_FALSE(found.is_over) << explain(outcome);
      links.insert({found.from.value, found.to.value});
    }
    return links;
  }
};

// A probe and its answer take both ways, and so does a message and what it is answered with.
TEST_F(SimulatedSlowLinks, OneIsNamedAndNoRole) {
  for (const auto& [from, to] : {Link{0, 1}, {1, 0}, {2, 1}, {0, 3}}) {
    const SimulatedOutcome outcome = survives({slow(from, to, absl::Milliseconds(2000))});
    const std::set<Link> expected{{from, to}, {to, from}};
    EXPECT_EQ(named(outcome), expected) << explain(outcome);
    EXPECT_THAT(outcome.stragglers, IsEmpty()) << explain(outcome);
  }
}

TEST_F(SimulatedSlowLinks, ARoleThatIsSlowMakesNoLinkSlow) {
  for (int rank = 0; rank < 4; ++rank) {
    SimulatedFault fault{.kind = SimulatedFault::Kind::kSlowWorker,
                         .rank = Rank(rank),
                         .time = absl::Milliseconds(500)};
    fault.factor = 10;
    const SimulatedOutcome outcome = survives({fault});
    ASSERT_EQ(outcome.stragglers.size(), 1u) << explain(outcome);
    EXPECT_EQ(outcome.stragglers[0].rank, Rank(rank));
    EXPECT_THAT(outcome.slow_links, IsEmpty()) << explain(outcome);
  }
}

// Role 0.0 hangs, 0.1 waits for it inside their stage, and the other stage for 0.1, in the verdict.
// Who waits longer than a step takes accuses nobody: the controller finds who hangs.
TEST_F(SimulatedSlowLinks, WhoWaitsForAHangingRoleIsNotAccused) {
  shape_.strategy = StrategyKind::kDense;
  shape_.window = 1;
  shape_.period = 2;
  shape_.model.steps = 94;
  shape_.model.micro_batches = 5;
  shape_.network.bytes_per_second = 3e4;
  const SimulatedFault hang{.kind = SimulatedFault::Kind::kHang,
                            .rank = Rank(0),
                            .point = "step/accumulated",
                            .at_rank = Rank(0),
                            .passing = 11};
  const SimulatedOutcome outcome = survives({slow(3, 2, absl::Milliseconds(1020)), hang});
  ASSERT_EQ(outcome.recoveries.size(), 1u) << explain(outcome);
  EXPECT_EQ(outcome.recoveries[0].roles, std::vector<std::string>{"0.0"}) << explain(outcome);
}

TEST_F(SimulatedSlowLinks, WhereNothingIsSlowNoneIs) {
  shape_.model.steps = 2000;
  EXPECT_THAT(run().slow_links, IsEmpty());
}

}  // namespace
}  // namespace evermoe
