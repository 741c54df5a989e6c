#include "control/agent/worker_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

// A worker plays rank 1 since view 2.
class WorkerMessages : public testing::Test {
 protected:
  static MemberJoined joined() {
    MemberJoined joined;
    joined.rank = Rank(1);
    joined.since = View(2);
    return joined;
  }
  template <typename Message>
  HeardOfWorker hear(const Message& message, bool has_controller = true) {
    return hear_of_worker(worker, has_controller, message);
  }

  AgentWorker worker{.rank = Rank(1), .since = View(2)};
};

TEST_F(WorkerMessages, AWorkerSpeaksOfItselfAlone) {
  EXPECT_TRUE(hear(MemberAlive{Rank(0), View(2), View(2)}).is_nonsense);
  EXPECT_TRUE(hear(MemberAlive{Rank(1), View(1), View(2)}).is_nonsense);
  EXPECT_TRUE(hear(WorkerReport{.rank = Rank(0)}).is_nonsense);
  EXPECT_TRUE(hear(Drain{}).is_nonsense) << "nobody says that to an agent";
}

TEST_F(WorkerMessages, TheControllerHearsOfThoseThatHaveRegisteredWithIt) {
  const MemberAlive alive{Rank(1), View(2), View(2)};
  hear(alive);
  EXPECT_FALSE(worker.has_given_sign);
  EXPECT_FALSE(hear(joined(), /*has_controller=*/false).has_registered);
  hear(alive);
  EXPECT_FALSE(worker.has_given_sign);
  EXPECT_TRUE(hear(joined()).has_registered);
  EXPECT_FALSE(hear(alive).told.has_value()) << "the agent's own sign tells of it";
  EXPECT_TRUE(worker.has_given_sign);
  EXPECT_EQ(worker.entered, View(2));
}

TEST_F(WorkerMessages, StepTimesAreKeptUntilTheNextSignButNotMoreThanTravel) {
  MemberAlive alive{Rank(1), View(2), View(2)};
  for (int64_t step = 0; step < 100; step += 10) {
    alive.step_times.clear();
    for (int64_t i = 0; i < 10; ++i)
      alive.step_times.push_back({Step(step + i), absl::Seconds(1), 2});
    hear(alive);
  }
  ASSERT_EQ(worker.step_times.size(), kStepTimesMax);
  EXPECT_EQ(worker.step_times.back().step, Step(99));
}

TEST_F(WorkerMessages, OfOneThatIsDisownedItHearsNothing) {
  worker.is_disowned = true;
  EXPECT_FALSE(hear(joined()).has_registered);
  WorkerReport report{.kind = WorkerReport::Kind::kFailed, .rank = Rank(1)};
  EXPECT_FALSE(hear(report).told.has_value());
  EXPECT_TRUE(worker.failed.has_value()) << "it says how it ends all the same";
}

TEST_F(WorkerMessages, ReportsAreKeptForTheNextController) {
  EXPECT_TRUE(hear(WorkerReport{.rank = Rank(1)}, /*has_controller=*/false).is_kept);
  EXPECT_FALSE(hear(joined()).is_kept);
}

}  // namespace
}  // namespace evermoe
