#include "control/controller/relay/run_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::Optional;

auto is_note(int index, double failed) {
  return Optional(testing::AllOf(testing::Field(&RecoveryNote::index, index),
                                 testing::Field(&RecoveryNote::failed, absl::Seconds(failed))));
}

// After every sign of life of every worker it is asked.
TEST(RunHistory, WhatHasNotChangedIsNotLookedAt) {
  RunHistory history;
  std::vector<RecoveryRecord> records;
  EXPECT_EQ(history.note(records, 0, absl::Seconds(1)), std::nullopt);
  records.emplace_back();
  EXPECT_THAT(history.note(records, 1, absl::Seconds(2)), is_note(0, 2));
  EXPECT_EQ(history.note(records, 1, absl::Seconds(3)), std::nullopt);
  records.back().resumed = absl::Seconds(4);
  EXPECT_THAT(history.note(records, 2, absl::Seconds(4)), is_note(0, 2)) << "it failed before";
  records.emplace_back();
  EXPECT_THAT(history.note(records, 3, absl::Seconds(5)), is_note(1, 5));
  EXPECT_EQ(history.tell(absl::ZeroDuration()).size(), 2u);
}

}  // namespace
}  // namespace evermoe
