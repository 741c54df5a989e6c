#include "experts/dispatch/dispatch_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace evermoe {
namespace {

// Sends every choice's identity through both plans of a whole stage group.
TEST(DispatchPlanTest, EveryChoiceArrivesOnceAtItsExpertAndComesBack) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const int lanes = 1 + static_cast<int>(random() % 4);
    const int experts = 1 + static_cast<int>(random() % 9);
    const auto placement = ExpertPlacement::uniform(experts, lanes, 1);
    std::vector<std::vector<int64_t>> chosen(lanes);
    std::vector<SendPlan> sends;
    for (int lane = 0; lane < lanes; ++lane) {
      chosen[lane].resize(random() % 20);
      for (int64_t& expert : chosen[lane]) expert = static_cast<int64_t>(random() % experts);
      sends.push_back(plan_send(chosen[lane], placement));
    }
    size_t arrived = 0;
    for (int lane = 0; lane < lanes; ++lane) {
      std::vector<std::vector<int64_t>> counts;
      std::vector<std::pair<int, int64_t>> buffer;  // (source lane, choice)
      for (int source = 0; source < lanes; ++source) {
        counts.push_back(sends[source].counts[lane]);
        int64_t begin = 0;
        for (int before = 0; before < lane; ++before) begin += sends[source].rows_to[before];
        for (int64_t i = 0; i < sends[source].rows_to[lane]; ++i) {
          buffer.push_back({source, sends[source].choice_order[begin + i]});
        }
      }
      const int64_t multiple = trial % 2 == 0 ? 1 : 16;
      const ReceivePlan plan = plan_receive(counts, lane, placement, multiple);
      ASSERT_EQ(plan.received, static_cast<int64_t>(buffer.size()));
      ASSERT_EQ(plan.layout_rows, static_cast<int64_t>(plan.layout_source.size()));
      for (const ExpertRows& rows : plan.experts) {
        ASSERT_TRUE(rows.rows == 0 ? rows.padded == 0 : rows.padded >= kExpertRowsMin);
        ASSERT_EQ(rows.padded % multiple, 0);
        std::pair<int, int64_t> last{-1, -1};
        for (int64_t i = 0; i < rows.padded; ++i) {
          const int64_t source = plan.layout_source[rows.begin + i];
          if (i >= rows.rows) {
            ASSERT_EQ(source, plan.received);
            continue;
          }
          ASSERT_EQ(plan.layout_position[source], rows.begin + i);
          const auto [from, choice] = buffer[source];
          ASSERT_EQ(chosen[from][choice], rows.expert);
          ASSERT_EQ(placement.lanes_of(rows.expert).front(), lane);
          ASSERT_LT(last, buffer[source]);  // (source lane, choice) order
          last = buffer[source];
          ++arrived;
        }
      }
    }
    size_t sent = 0;
    for (int lane = 0; lane < lanes; ++lane) {
      sent += chosen[lane].size();
      for (size_t choice = 0; choice < chosen[lane].size(); ++choice) {
        ASSERT_EQ(sends[lane].choice_order[sends[lane].choice_position[choice]],
                  static_cast<int64_t>(choice));
      }
    }
    ASSERT_EQ(arrived, sent);
  }
}

}  // namespace
}  // namespace evermoe
