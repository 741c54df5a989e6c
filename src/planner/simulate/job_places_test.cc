#include <gtest/gtest.h>

#include <vector>

#include "planner/simulate/job_places.h"

namespace evermoe {
namespace {

TEST(JobPlacesTest, LowestSpareTakesLowestPlace) {
  JobPlaces places(3, 6, 0);
  places.add(std::vector<int>{0, 1, 2, 4, 5});
  places.fill();
  EXPECT_EQ(places.spares(), 2);
  EXPECT_EQ(places.remove(std::vector<int>{1, 5}), (std::vector<int>{1}));
  places.fill();
  EXPECT_EQ(places.places_of(std::vector<int>{4}), (std::vector<int>{1}));
  EXPECT_TRUE(places.is_full());
  EXPECT_EQ(places.spares(), 0);
}

TEST(JobPlacesTest, StagesOfPlacesWhateverDividesWhat) {
  const JobPlaces wide(8, 8, 0), narrow(2, 2, 0);
  EXPECT_EQ(wide.adjacent_stages(std::vector<int>{0, 1}, 4), 1);
  EXPECT_EQ(wide.adjacent_stages(std::vector<int>{1, 2}, 4), 2);
  EXPECT_EQ(narrow.adjacent_stages(std::vector<int>{0}, 6), 3);
  EXPECT_EQ(JobPlaces(2, 2, 0).adjacent_stages(std::vector<int>{0}, 3),
            2);  // half of stage 1 as well
}

}  // namespace
}  // namespace evermoe
