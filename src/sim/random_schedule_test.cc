// What random schedules are drawn from.
#include "sim/random_schedule.h"

#include <gtest/gtest.h>

#include <set>

namespace evermoe {
namespace {

using Kind = SimulatedFault::Kind;

// Of many seeds.
std::set<Kind> kinds_drawn(const ScheduleOptions& options) {
  std::set<Kind> kinds;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    for (const SimulatedFault& fault : random_schedule(seed, options).faults)
      kinds.insert(fault.kind);
  }
  return kinds;
}

TEST(RandomScheduleTest, EveryKindIsDrawn) {
  const std::set<Kind> drawn = kinds_drawn({});
  for (int kind = 0; kind <= static_cast<int>(Kind::kUnplugNode); ++kind)
    EXPECT_TRUE(drawn.contains(static_cast<Kind>(kind))) << kind_name(static_cast<Kind>(kind));
}

// tests/machines/schedules.py says how each of these is played.
TEST(RandomScheduleTest, PlayableOnesHaveWhatMachinesCanPlay) {
  ScheduleOptions options = playable_schedules();
  options.lanes = {2, 2};
  EXPECT_EQ(
      kinds_drawn(options),
      (std::set<Kind>{Kind::kKillWorker, Kind::kStopWorker, Kind::kCut, Kind::kPause, Kind::kHang,
                      Kind::kKillNode, Kind::kStopAgent, Kind::kStopNode, Kind::kKillController,
                      Kind::kStopController, Kind::kCutLine, Kind::kMuteNode, Kind::kDeafNode,
                      Kind::kSlowLine, Kind::kCutWorkers, Kind::kMuteWorkers, Kind::kUnplugNode}));
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const RandomSchedule schedule = random_schedule(seed, options);
    EXPECT_FALSE(schedule.shape.has_store);
    for (const SimulatedFault& fault : schedule.faults) {
      const bool is_timed = fault.point.empty();
      EXPECT_EQ(fault.time < absl::InfiniteDuration(), is_timed);
      if (is_timed) continue;
      EXPECT_GE(fault.passing, 1);
      EXPECT_LE(fault.passing, usual_passings(fault.point)) << fault.point;
    }
  }
}

TEST(RandomScheduleTest, NobodyIsCutFromItself) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    for (const SimulatedFault& fault : random_schedule(seed, {}).faults) {
      if (fault.kind == Kind::kCut) {
        EXPECT_NE(fault.rank, fault.other);
      }
      if (fault.kind == Kind::kCutWorkers || fault.kind == Kind::kMuteWorkers) {
        EXPECT_NE(fault.node, fault.peer);
      }
    }
  }
}

}  // namespace
}  // namespace evermoe
