// What people hear of checkpoints that cannot be saved.
#include "control/launch/save_troubles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using Kind = WorkerReport::Kind;

class SaveTroublesTest : public testing::Test {
 protected:
  std::string fails(double seconds, int64_t step, const std::string& role = "0.0") {
    return troubles_
        .on_report(absl::Seconds(seconds), role,
                   {.kind = Kind::kSaveFailed, .step = Step(step), .text = "disk full"})
        .value_or("");
  }
  std::string publishes(double seconds, int64_t step) {
    return troubles_
        .on_report(absl::Seconds(seconds), "0.0", {.kind = Kind::kPublished, .step = Step(step)})
        .value_or("");
  }
  SaveTroubles troubles_;
};

TEST_F(SaveTroublesTest, TheFirstIsToldAtOnceAndOnce) {
  EXPECT_EQ(publishes(10, 20), "");
  EXPECT_EQ(fails(20, 40),
            "warning: worker 0.0 cannot save the checkpoint of step 40: disk full; training goes "
            "on; the newest one is of step 20");
  for (const char* role : {"0.1", "1.0", "1.1"}) EXPECT_EQ(fails(20.1, 40, role), "");
}

TEST_F(SaveTroublesTest, ThenAgainWithLongerAndLongerPauses) {
  fails(0, 10);
  std::vector<int> told;
  for (int second = 1; second <= 500; ++second) {
    if (!fails(second, 10 + second).empty()) told.push_back(second);
  }
  EXPECT_THAT(told, testing::ElementsAre(30, 90, 210, 450));
  EXPECT_EQ(fails(1000, 99),
            "warning: for 16m40s no checkpoint could be saved; this run has saved none; the last "
            "try: worker 0.0 cannot save the checkpoint of step 99: disk full");
}

TEST_F(SaveTroublesTest, ThatItIsOverIsToldToo) {
  fails(0, 10);
  EXPECT_EQ(publishes(20, 20), "checkpoints are saved again: step 20 is on disk");
  EXPECT_EQ(publishes(30, 30), "");
  EXPECT_NE(fails(31, 40), "") << "another time";
}

}  // namespace
}  // namespace evermoe
