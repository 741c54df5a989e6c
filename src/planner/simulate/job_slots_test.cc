#include <gtest/gtest.h>

#include <vector>

#include "planner/simulate/job_slots.h"

namespace evermoe {
namespace {

TEST(JobSlotsTest, LowestSpareTakesLowestSlot) {
  JobSlots slots(3, 6, 0);
  slots.add(std::vector<int>{0, 1, 2, 4, 5});
  slots.fill();
  EXPECT_EQ(slots.spares(), 2);
  EXPECT_EQ(slots.remove(std::vector<int>{1, 5}), (std::vector<int>{1}));
  slots.fill();
  EXPECT_EQ(slots.slots_of(std::vector<int>{4}), (std::vector<int>{1}));
  EXPECT_TRUE(slots.is_full());
  EXPECT_EQ(slots.spares(), 0);
}

TEST(JobSlotsTest, StagesOfSlotsWhateverDividesWhat) {
  const JobSlots wide(8, 8, 0), narrow(2, 2, 0);
  EXPECT_EQ(wide.adjacent_stages(std::vector<int>{0, 1}, 4), 1);
  EXPECT_EQ(wide.adjacent_stages(std::vector<int>{1, 2}, 4), 2);
  EXPECT_EQ(narrow.adjacent_stages(std::vector<int>{0}, 6), 3);
  EXPECT_EQ(JobSlots(2, 2, 0).adjacent_stages(std::vector<int>{0}, 3),
            2);  // half of stage 1 as well
}

}  // namespace
}  // namespace evermoe
