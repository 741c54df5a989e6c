#include "parallel/trained_lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::Optional;

const Topology kThreeOfEach({3, 3}, 2), kTwoAndThree({2, 3}, 2);

TEST(TrainedLanes, LanesAreNotedWhereTheyAreOthersThanBefore) {
  TrainedOn all;
  for (int64_t from = 0; from < 12; ++from)
    note_step(Step(from), from < 8 ? kThreeOfEach : kTwoAndThree, all);
  EXPECT_THAT(all, ElementsAre(TrainedLanes{Step(0), {3, 3}}, TrainedLanes{Step(8), {2, 3}}));
}

TEST(TrainedLanes, TheNewestAreKept) {
  TrainedOn all;
  for (int64_t from = 0; from <= static_cast<int64_t>(kTrainedOnMax); ++from)
    note_step(Step(from), from % 2 == 0 ? kThreeOfEach : kTwoAndThree, all);
  EXPECT_EQ(all.size(), kTrainedOnMax);
  EXPECT_EQ(all.front().step, Step(1));
}

TEST(TrainedLanes, NumbersGiveThemBackAndOthersAreRefused) {
  const TrainedOn all = {{Step(0), {3, 3}}, {Step(8), {2, 3}}, {Step(9), {4}}};
  EXPECT_THAT(trained_on_from(to_numbers(all)), Optional(all));
  EXPECT_THAT(trained_on_from({}), Optional(TrainedOn()));
  for (const std::vector<int64_t>& wrong :
       {std::vector<int64_t>{8}, {8, 0}, {8, 2, 3}, {8, -1, 3}, {8, 1, 3, 9}}) {
    EXPECT_EQ(trained_on_from(wrong), std::nullopt);
  }
}

}  // namespace
}  // namespace evermoe
