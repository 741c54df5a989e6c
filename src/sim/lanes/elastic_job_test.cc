// Jobs whose lanes train and rest: by a script, and because nodes are lost and come. Whatever
// happens on the way, a job ends with the bits of an undisturbed one in which the same roles rest
// from the same states on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "sim/simulated_job_testing.h"

namespace evermoe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Kind = SimulatedFault::Kind;

std::string text_of(const MembershipHistory& history) {
  std::string text;
  for (const MembershipChange& change : history) {
    absl::StrAppend(&text, change.step.value, ":");
    for (const Rank rank : change.resting) absl::StrAppend(&text, " ", rank.value);
    absl::StrAppend(&text, "\n");
  }
  return text;
}

class ElasticJobTest : public SimulatedJobTest {
 protected:
  ElasticJobTest() {
    shape_.lanes = {3, 3};
    shape_.nodes = 6;
    shape_.spares = 0;
    shape_.copies = 2;
    shape_.model.steps = 24;
    shape_.model.micro_batches = 6;
    shape_.network.time_max = absl::Minutes(1);
  }
  void protect(StrategyKind strategy) {
    shape_.strategy = strategy;
    if (strategy != StrategyKind::kSparse) shape_.window = 1;
    shape_.period = strategy == StrategyKind::kGradients ? 5 : 0;
  }
  // Of an undisturbed job with that history.
  std::string digest_of(const MembershipHistory& history) {
    SimulatedShape shape = shape_;
    shape.elastic = {};
    shape.elastic.script = history;
    const SimulatedOutcome outcome = SimulatedJob(shape, {}).run();
    EXPECT_TRUE(outcome.ok) << explain(outcome);
    return outcome.digest;
  }
  // An elastic job with these faults, which changes its lanes.
  SimulatedOutcome lives_through(std::vector<SimulatedFault> faults) {
    shape_.elastic.is_enabled = true;
    SimulatedOutcome outcome = run(std::move(faults));
    EXPECT_TRUE(outcome.ok) << explain(outcome);
    EXPECT_THAT(outcome.violations, IsEmpty()) << explain(outcome);
    EXPECT_THAT(outcome.contradictions, IsEmpty()) << explain(outcome);
    EXPECT_THAT(outcome.story, Not(Contains(HasSubstr("nothing has happened"))))
        << "somebody waited for what did not come: " << explain(outcome);
    EXPECT_THAT(outcome.membership, Not(IsEmpty())) << explain(outcome);
    EXPECT_EQ(outcome.samples, shape_.model.steps * shape_.model.micro_batches);
    EXPECT_EQ(outcome.digest, digest_of(outcome.membership))
        << text_of(outcome.membership) << explain(outcome);
    return outcome;
  }
  static SimulatedFault lose(int node, int milliseconds, int back_after = 0) {
    return {.kind = Kind::kKillNode,
            .node = Node(node),
            .lasts = absl::Milliseconds(back_after),
            .time = absl::Milliseconds(milliseconds)};
  }
};

const MembershipHistory& script() {
  static const MembershipHistory history = {{Step(5), {Rank(2)}},
                                            {Step(11), {Rank(2), Rank(4), Rank(5)}},
                                            {Step(12), {Rank(1), Rank(5)}},
                                            {Step(17), {}}};
  return history;
}

constexpr StrategyKind kExact[] = {StrategyKind::kSparse,    StrategyKind::kDense,
                                   StrategyKind::kGradients, StrategyKind::kPeerMemory,
                                   StrategyKind::kCheckfreq, StrategyKind::kNone};

TEST_F(ElasticJobTest, TheBitsAreThoseOfTheHistoryWhateverProtectsThem) {
  const std::string expected = digest_of(script());
  EXPECT_NE(expected, digest_of({}));
  MembershipHistory earlier = script();
  earlier[1].step = Step(10);
  EXPECT_NE(expected, digest_of(earlier));
  for (const StrategyKind strategy : kExact) {
    protect(strategy);
    EXPECT_EQ(digest_of(script()), expected) << to_string(strategy);
  }
}

// All nodes that went to the next host meanwhile are lost for it. Whoever it started would take the
// roles of processes that live; and on lanes of its own it would bring the job to another end.
TEST_F(ElasticJobTest, AFormerHostDoesNotGoOnWithWhatIsLeftToIt) {
  shape_.has_store = true;
  shape_.model.steps = 150;
  shape_.model.evaluate_every = 0;
  bool was_fenced = false;
  for (int lasts = 1500; lasts <= 3000; lasts += 100) {
    const SimulatedOutcome outcome = lives_through({{.kind = Kind::kSuspendNode,
                                                     .node = Node(-1),  // that hosts
                                                     .lasts = absl::Milliseconds(lasts),
                                                     .time = absl::Milliseconds(150)}});
    was_fenced = was_fenced || outcome.marks.contains("old host fenced when it had lost others");
    EXPECT_THAT(outcome.story, Not(Contains(HasSubstr("replaced when")))) << explain(outcome);
  }
  EXPECT_TRUE(was_fenced);
}

class ElasticLossTest : public ElasticJobTest, public testing::WithParamInterface<StrategyKind> {
 protected:
  ElasticLossTest() { protect(GetParam()); }
  // A loss while the job follows the script.
  void follows_script(const SimulatedFault& fault, const std::string& expected) {
    shape_.elastic.script = script();
    const SimulatedOutcome outcome = run({fault});
    ASSERT_TRUE(outcome.ok) << to_string(fault) << explain(outcome);
    ASSERT_EQ(outcome.digest, expected) << to_string(fault) << explain(outcome);
    ASSERT_THAT(outcome.contradictions, IsEmpty()) << to_string(fault) << explain(outcome);
  }
};

// Who goes back to a checkpoint of other lanes than the script's first has moved twice what moved
// once: the hash model shows that, and it does not matter to weights.
class ElasticScriptTest : public ElasticLossTest {};

TEST_P(ElasticScriptTest, ARoleMayBeLostWhileTheLanesOfAScriptChange) {
  const std::string expected = digest_of(script());
  for (const char* const point : {"lanes/change", "lanes/changed"}) {
    for (int rank = 0; rank < 6; ++rank) {
      for (const int64_t passing : {1, 2, 3, 4})
        ASSERT_NO_FATAL_FAILURE(follows_script(kill(rank, point, passing), expected));
    }
  }
}

TEST_P(ElasticScriptTest, ARoleMayBeLostAtAnyStepOfAScript) {
  const std::string expected = digest_of(script());
  for (int rank = 0; rank < 6; ++rank) {
    for (int64_t passing = 2 + rank % 3; passing <= 24; passing += 3)
      ASSERT_NO_FATAL_FAILURE(follows_script(kill(rank, "step/before_verdict", passing), expected));
  }
}

TEST_P(ElasticLossTest, ALostNodeCostsALaneAndOneThatComesBringsItBack) {
  lives_through({lose(2, 80)});
  const SimulatedOutcome outcome = lives_through({lose(2, 60, 40)});
  EXPECT_THAT(outcome.membership.back().resting, IsEmpty()) << explain(outcome);
  EXPECT_THAT(outcome.recoveries.back().rolled_back_stages, IsEmpty())
      << "for a newcomer nobody goes back" << explain(outcome);
}

// Messages are under way then, and stages that stay where they are need them.
TEST_P(ElasticLossTest, ANodeMayComeAtAnyTimeInAStep) {
  for (int back_after = 30; back_after < 60; back_after += 3)
    lives_through({lose(2, 60, back_after)});
}

// Nobody waits for a process to start, and none that becomes warm has to come to that.
TEST_P(ElasticLossTest, AProcessIsWarmOnANodeThatComesBeforeARoleMovesThere) {
  shape_.model.steps = 60;
  const SimulatedOutcome outcome = lives_through({lose(2, 80, 40)});
  EXPECT_THAT(outcome.story, Contains(HasSubstr("node 2 has come: a process becomes warm there")))
      << explain(outcome);
  EXPECT_THAT(outcome.story, Contains(HasSubstr("the standby of node 2 takes its role")))
      << explain(outcome);
  for (const char* const point : {"step/backward", "step/before_verdict"}) {
    for (int64_t passing = 40; passing <= 120; passing += 20) {
      SimulatedFault killed{.kind = Kind::kKillStandby, .node = Node(2)};
      killed.point = point;
      killed.passing = passing;
      lives_through({lose(2, 80, 40), killed});
    }
  }
}

TEST_P(ElasticLossTest, AStageTrainsWithTheNumbersOfLanesThatItMay) {
  shape_.elastic.widths = {1, 3};
  const SimulatedOutcome fewer = lives_through({lose(2, 80)});
  EXPECT_THAT(fewer.membership.back().resting, ElementsAre(Rank(1), Rank(2))) << explain(fewer);
  const SimulatedOutcome back = lives_through({lose(2, 60, 40)});
  EXPECT_THAT(back.membership.back().resting, IsEmpty()) << explain(back);
}

TEST_P(ElasticLossTest, SeveralAreLostAtOnceAndInARow) {
  lives_through({lose(1, 70), lose(4, 70)});
  lives_through({lose(1, 50), lose(4, 90), lose(0, 130)});
  lives_through({lose(0, 60, 50), lose(1, 75, 50), lose(5, 95, 50)});
}

// A source or a destination of what moves.
TEST_P(ElasticLossTest, OneMayBeLostWhileLanesChange) {
  for (int rank = 0; rank < 6; ++rank) {
    for (const char* const point : {"lanes/change", "lanes/changed"})
      lives_through({lose(2, 70), kill(rank, point, 1)});
  }
}

TEST_P(ElasticLossTest, AControllerMayBeLostOnTheWay) {
  for (const int milliseconds : {65, 75, 90, 120}) {
    lives_through(
        {lose(2, 60), {.kind = Kind::kKillController, .time = absl::Milliseconds(milliseconds)}});
  }
}

std::string name_of(const testing::TestParamInfo<StrategyKind>& info) {
  return absl::StrReplaceAll(std::string(to_string(info.param)), {{"-", ""}});
}

INSTANTIATE_TEST_SUITE_P(Exact, ElasticLossTest, testing::ValuesIn(kExact), name_of);
INSTANTIATE_TEST_SUITE_P(Copies, ElasticScriptTest,
                         testing::Values(StrategyKind::kSparse, StrategyKind::kDense,
                                         StrategyKind::kGradients, StrategyKind::kPeerMemory),
                         name_of);

}  // namespace
}  // namespace evermoe
