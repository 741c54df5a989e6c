#include "config/experts/experts_keys.h"

#include <gtest/gtest.h>

#include "config/job_topology.h"
#include "config/parse_config_testing.h"

namespace evermoe {
namespace {

constexpr char kByLoad[] =
    "[model]\nexperts = 6\n[parallel]\nlanes = 3\n[experts]\nreplicas = \"by-load\"\n";

std::string refused(const std::string& line) { return error_of(kByLoad + line); }

TEST(ExpertsKeysTest, SlotsHaveToHoldTheExperts) {
  EXPECT_EQ(refused("slots = 1"),
            "job.toml:7:1: experts.slots: found 1, allowed: at least 2, so that the 3 lanes of "
            "stage 0 hold model.experts (6)");
  EXPECT_EQ(refused("slots = 3\nfaults = 1"),
            "job.toml:7:1: experts.slots: found 3, allowed: at least 4, so that the 3 lanes of "
            "stage 0 hold model.experts (6) experts.faults + 1 (2) times");
  EXPECT_EQ(parsed(std::string(kByLoad) + "slots = 4\nfaults = 1").experts.slots, 4);
}

TEST(ExpertsKeysTest, NotAllLanesMayBeLost) {
  EXPECT_EQ(refused("faults = 3"),
            "job.toml:7:1: experts.faults: found 3, allowed: fewer than the 3 lanes of stage 0");
  EXPECT_EQ(error_of("[experts]\nfaults = 1"),
            "job.toml:2:1: experts.faults: found 1, allowed: less than parallel.expert_replicas "
            "(1)");
}

TEST(ExpertsKeysTest, SlotsAreForReplicasByLoad) {
  EXPECT_EQ(error_of("[experts]\nslots = 3"),
            "job.toml:2:1: experts.slots: found 3, allowed: \"auto\", unless experts.replicas = "
            "\"by-load\"");
}

TEST(ExpertsKeysTest, CheckpointsOfAFewExpertsWantThemInTheirPlaces) {
  EXPECT_NE(refused("[protection]\nstrategy = \"partial-experts\"").find("experts.replicas"),
            std::string::npos);
}

TEST(ExpertsKeysTest, AutoIsOneSlotMoreThanAnEvenSpreadTakes) {
  const JobConfig config = parsed(kByLoad);
  EXPECT_EQ(slots_of_lane(balance_options(config), 6, 3), 3);
  // Without loads no replica is worth its additions.
  EXPECT_FALSE(expert_placement_of(config, 3).has_replicas());
  // The most that a lane may come to hold: three experts that nobody else has.
  const ExpertPlacement heaviest = heaviest_placement(config, 3, 1);
  EXPECT_EQ(heaviest.experts_on(1).size(), 3);
  for (const int expert : heaviest.experts_on(1)) EXPECT_EQ(heaviest.lanes_of(expert).size(), 1);
}

TEST(ExpertsKeysTest, LoadsAreRememberedForAQuarterOfTheTimeBetweenDecisions) {
  const auto memory = [](int64_t every) {
    JobConfig config = parsed(kByLoad);
    config.experts.rebalance_every_steps = every;
    return balance_options(config).memory_steps;
  };
  EXPECT_EQ(memory(200), 50);
  EXPECT_EQ(memory(40), 16) << "too few steps have too few tokens";
  EXPECT_EQ(memory(6), 6);
  EXPECT_EQ(memory(1), 1);
}

}  // namespace
}  // namespace evermoe
