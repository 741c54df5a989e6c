#include "parallel/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

namespace evermoe {
namespace {

using Kind = RoundOperation::Kind;

std::string to_text(const std::vector<RoundOperation>& order) {
  std::string text;
  for (const RoundOperation& op : order) {
    text += (text.empty() ? "" : " ") + std::string(op.kind == Kind::kForward ? "F" : "B") +
            std::to_string(op.round);
  }
  return text;
}

// Runs the orders with an executor that knows nothing of the simulation: a stage blocks on its next
// operation until its micro-batches have come. Returns whether all stages finish.
bool executes(const std::vector<int>& widths, int micro_batches,
              const std::vector<std::vector<RoundOperation>>& orders) {
  const int stages = static_cast<int>(widths.size());
  std::vector<std::set<int>> activations(stages), gradients(stages);  // arrived micro-batches
  std::vector<size_t> next(stages, 0);
  for (int m = 0; m < micro_batches; ++m) activations[0].insert(m);
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < stages; ++s) {
      if (next[s] == orders[s].size()) continue;
      const RoundOperation op = orders[s][next[s]];
      const int begin = op.round * widths[s];
      const int end = std::min(begin + widths[s], micro_batches);
      const bool forward = op.kind == Kind::kForward;
      bool ready = true;
      for (int m = begin; m < end; ++m) {
        ready &= forward ? activations[s].contains(m) : s == stages - 1 || gradients[s].contains(m);
      }
      if (!ready) continue;
      for (int m = begin; m < end; ++m) {
        if (forward && s + 1 < stages) activations[s + 1].insert(m);
        if (!forward && s > 0) gradients[s - 1].insert(m);
      }
      ++next[s];
      moved = true;
    }
  }
  for (int s = 0; s < stages; ++s) {
    if (next[s] != orders[s].size()) return false;
  }
  return true;
}

TEST(PipelineScheduleTest, EqualWidthsGiveClassical1F1B) {
  const auto orders = pipeline_schedule({1, 1, 1}, 4);
  EXPECT_EQ(to_text(orders[0]), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(to_text(orders[1]), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(to_text(orders[2]), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(PipelineScheduleTest, OneStageAlternates) {
  EXPECT_EQ(to_text(pipeline_schedule({2}, 5)[0]), "F0 B0 F1 B1 F2 B2");
}

TEST(PipelineScheduleTest, EqualWidthsHoldAtMostStagesLeftRounds) {
  for (int stages = 1; stages <= 5; ++stages) {
    const auto orders = pipeline_schedule(std::vector<int>(stages, 2), 24);
    for (int s = 0; s < stages; ++s) EXPECT_LE(rounds_in_flight_max(orders[s]), stages - s);
  }
}

TEST(PipelineScheduleTest, EveryRoundOnceEachWayAndNoDeadlockForAnyWidths) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<int> widths(1 + random() % 6);
    for (int& width : widths) width = 1 + static_cast<int>(random() % 5);
    const int micro_batches = 1 + static_cast<int>(random() % 20);
    const auto orders = pipeline_schedule(widths, micro_batches);
    for (size_t s = 0; s < widths.size(); ++s) {
      const int rounds = round_count(widths[s], micro_batches);
      ASSERT_EQ(orders[s].size(), static_cast<size_t>(2 * rounds));
      int forward = 0, backward = 0;
      for (const RoundOperation& op : orders[s]) {
        // Rounds of a kind run in order, so gradients accumulate in micro-batch order.
        ASSERT_EQ(op.round, op.kind == Kind::kForward ? forward++ : backward++);
        ASSERT_LE(backward, forward);
      }
    }
    ASSERT_TRUE(executes(widths, micro_batches, orders)) << "trial " << trial;
  }
}

}  // namespace
}  // namespace evermoe
