#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "sim/simulated_job.h"

namespace evermoe {
namespace {

SimulatedOutcome run(const SimulatedShape& shape, std::vector<Disaster> disasters = {}) {
  return SimulatedJob(shape, std::move(disasters)).run();
}

std::string explain(const SimulatedOutcome& outcome) {
  return outcome.reason + "\n" + absl::StrJoin(outcome.story, "\n") + "\n" + outcome.waiting;
}

SimulatedShape shape_of(uint64_t seed) {
  SimulatedShape shape;
  shape.network.seed = seed;
  shape.network.time_max = absl::Minutes(2);
  return shape;
}

TEST(SimulatedJobTest, UndisturbedRunsAgree) {
  const SimulatedOutcome first = run(shape_of(1));
  ASSERT_TRUE(first.ok) << explain(first);
  const SimulatedOutcome second = run(shape_of(2));
  ASSERT_TRUE(second.ok) << explain(second);
  EXPECT_EQ(first.digest, second.digest);
  EXPECT_EQ(first.samples, 12 * 4);
  EXPECT_TRUE(first.recoveries.empty());
}

TEST(SimulatedJobTest, OneKillCostsNoBit) {
  const SimulatedOutcome expected = run(shape_of(1));
  for (int32_t rank = 0; rank < 4; ++rank) {
    const SimulatedOutcome outcome =
        run(shape_of(static_cast<uint64_t>(rank)), {{.kind = Disaster::Kind::kKillWorker, .rank = Rank(rank), .point = "step/backward",
                         .at_rank = Rank(rank), .passing = 17}});
    ASSERT_TRUE(outcome.ok) << explain(outcome);
    EXPECT_EQ(outcome.digest, expected.digest) << explain(outcome);
    ASSERT_EQ(outcome.recoveries.size(), 1u) << explain(outcome);
    EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
    EXPECT_THAT(outcome.recoveries[0].rolled_back_stages, testing::ElementsAre(rank / 2));
  }
}

}  // namespace
}  // namespace evermoe
