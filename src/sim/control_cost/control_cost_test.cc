#include "sim/control_cost/control_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

std::vector<ControlCost> costs_of(int machines, int roles_per_machine = 4) {
  return measure_control_cost(
      {.machines = machines, .roles_per_machine = roles_per_machine, .lanes_max = 16});
}

// Eight times as many machines cost eight times as much: a view a few hundred bytes a role.
TEST(ControlCost, AViewCostsWhatItsChangesCost) {
  const auto small = costs_of(8), large = costs_of(64);
  ASSERT_EQ(small.size(), 5u);
  for (const size_t view : {2, 4}) {
    SCOPED_TRACE(large[view].what);
    const int64_t roles = int64_t{64} * 4;
    EXPECT_LT(large[view].messages_in + large[view].messages_out, roles * 12);
    EXPECT_LT(large[view].bytes_out, roles * 1000);
    EXPECT_LT(large[view].messages_out, small[view].messages_out * 10);
  }
  EXPECT_LT(large[1].bytes_in, small[1].bytes_in * 9) << "steps";
}

// Two signs of life a second, and the first word of each commit: both are the machine's.
TEST(ControlCost, AMinuteOfStepsCostsAMessagePerMachineHoweverManyRolesItPlays) {
  constexpr int kMachines = 16;
  const ControlCost one = costs_of(kMachines, 1)[1], many = costs_of(kMachines, 8)[1];
  EXPECT_EQ(many.messages_in, one.messages_in);
  EXPECT_EQ(many.messages_out, one.messages_out);
  EXPECT_LT(many.bytes_in, one.bytes_in * 8) << "a role costs what is said of it, and no envelope";
  const int64_t spares = 2, beats = 2 * 60, commits = 60;
  const int64_t rounds = 2 * (kMachines + spares);  // in which machines ask each other
  EXPECT_LE(one.messages_in, (kMachines + spares) * beats + kMachines * commits + rounds);
  EXPECT_EQ(one.job_seconds, 60);
}

// Every machine needs everybody's address; who has a plan tells it to no more than eight others.
TEST(ControlCost, TheBeginningOfAJobCostsNobodyTheSquareOfItsRoles) {
  const auto small = costs_of(32), large = costs_of(128);
  EXPECT_LT(large[0].bytes_out, small[0].bytes_out * 5);
  EXPECT_LT(large[0].agent_bytes, small[0].agent_bytes * 5);
  EXPECT_LT(large[0].agent_bytes, large[0].bytes_out);
}

}  // namespace
}  // namespace evermoe
