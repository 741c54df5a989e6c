#include "control/agent/agent_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace evermoe {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class AgentWorkersTest : public testing::Test {
 protected:
  AgentActions starts(int64_t start, int rank) {
    return workers.start(start, StartWorker{Node(1), Rank(rank), View(1)}, {});
  }
  // Its process and its stream have the number of its start.
  void runs(int64_t start, int rank) {
    starts(start, rank);
    workers.find(start)->pid = static_cast<pid_t>(start);
    ASSERT_TRUE(workers.attach(StreamNumber(start), static_cast<pid_t>(start)).has_value());
  }
  static int64_t spawned(const AgentActions& actions) {
    return actions.size() == 1 ? std::get<SpawnWorker>(actions[0]).start : 0;
  }
  static int64_t killed(const AgentActions& actions) {
    if (actions.size() != 1 || std::get<SignalWorker>(actions[0]).signal != SIGKILL) return 0;
    return std::get<SignalWorker>(actions[0]).start;
  }

  AgentWorkers workers;
};

TEST_F(AgentWorkersTest, TheNextProcessOfARoleWaitsForTheFormer) {
  EXPECT_EQ(spawned(starts(5, 0)), 5);
  EXPECT_EQ(spawned(starts(6, 1)), 6);
  EXPECT_EQ(killed(starts(7, 0)), 5);
  EXPECT_TRUE(workers.find(5)->is_disowned);
  EXPECT_THAT(workers.start_waiting(Rank(0), {}), IsEmpty()) << "it still lives";
  workers.remove(5);
  EXPECT_EQ(spawned(workers.start_waiting(Rank(0), {})), 7);
  workers.remove(7);
  EXPECT_THAT(workers.start_waiting(Rank(0), {}), IsEmpty());
}

TEST_F(AgentWorkersTest, WhoIsKilledIsNotStartedAnyMore) {
  starts(5, 0);
  starts(6, 0);
  EXPECT_THAT(workers.kill(6, Rank(0)), IsEmpty());
  workers.remove(5);
  EXPECT_THAT(workers.start_waiting(Rank(0), {}), IsEmpty());
  starts(8, 0);
  EXPECT_EQ(killed(workers.kill(8, Rank(0))), 8);
  EXPECT_THAT(workers.kill(9, Rank(0)), IsEmpty());
}

TEST_F(AgentWorkersTest, AProcessAttachesOnceAndUnderItsPid) {
  runs(5, 0);
  EXPECT_FALSE(workers.attach(StreamNumber(6), 5).has_value());
  EXPECT_FALSE(workers.attach(StreamNumber(6), 6).has_value());
  EXPECT_EQ(workers.speaking_on(StreamNumber(5))->first, 5);
  workers.on_broken(StreamNumber(5));
  EXPECT_EQ(workers.speaking_on(StreamNumber(5)), nullptr);
  EXPECT_THAT(workers.hand_on(5, SendOrder{}), IsEmpty());
  EXPECT_TRUE(workers.attach(StreamNumber(6), 5).has_value());
  EXPECT_THAT(workers.hand_on(5, SendOrder{}), SizeIs(1));
}

TEST_F(AgentWorkersTest, EachIsAskedToDrainOnceWhenItHasAttached) {
  runs(5, 0);
  starts(6, 1);
  EXPECT_THAT(workers.drain(), SizeIs(1));
  EXPECT_THAT(workers.drain(), IsEmpty());
  workers.find(6)->pid = 6;
  const std::optional<AgentActions> greeted = workers.attach(StreamNumber(6), 6);
  ASSERT_TRUE(greeted && greeted->size() == 1);
  EXPECT_EQ(std::get<SignalWorker>((*greeted)[0]).signal, SIGTERM);
}

TEST_F(AgentWorkersTest, WhoHasNotAttachedNeedNotRegister) {
  starts(5, 0);
  EXPECT_TRUE(workers.have_registered());
  runs(6, 1);
  EXPECT_FALSE(workers.have_registered());
  workers.find(6)->is_registered = true;
  EXPECT_TRUE(workers.have_registered());
  workers.forget_registrations();
  EXPECT_FALSE(workers.have_registered());
  EXPECT_THAT(workers.disown_all(), SizeIs(2));
  EXPECT_TRUE(workers.have_registered()) << "nobody wants to hear of them";
}

TEST_F(AgentWorkersTest, ASignOfLifeIsTakenOnceAndOnlyFromWhoIsToBeHeardOf) {
  for (const int start : {5, 6, 7}) {
    runs(start, start);
    workers.find(start)->has_given_sign = workers.find(start)->waits = true;
  }
  workers.find(6)->is_disowned = true;
  workers.find(5)->step_times = {{Step(3), absl::Seconds(1), 1}};
  const std::vector<AliveWorker> alive = workers.take_signs();
  ASSERT_EQ(alive.size(), 2u);
  EXPECT_EQ(alive[0].start, 5);
  EXPECT_EQ(alive[1].start, 7);
  EXPECT_EQ(alive[1].sign.rank, Rank(7));
  EXPECT_TRUE(alive[1].sign.waits);
  EXPECT_EQ(alive[0].sign.step_times.size(), 1u);
  EXPECT_TRUE(workers.find(5)->step_times.empty());
  EXPECT_THAT(workers.take_signs(), IsEmpty());
}

TEST_F(AgentWorkersTest, OnlyWhoHasAProcessCanStarve) {
  starts(5, 0);
  runs(6, 1);
  const auto starved = workers.starved([](pid_t pid) { return absl::Seconds(pid); });
  ASSERT_EQ(starved.size(), 1u);
  EXPECT_EQ(starved[0].starved, absl::Seconds(6));
}

}  // namespace
}  // namespace evermoe
