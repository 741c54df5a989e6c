#include "control/hosting/folder_watch.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

constexpr absl::Duration kNow = absl::Seconds(100);

TEST(ControllerPlace, BothPlacesInTurn) {
  ControllerPlace place("a:1");
  EXPECT_EQ(place.next(kNow, "b:1"), "b:1") << "where it was told nobody answers";
  EXPECT_EQ(place.next(kNow + ControllerPlace::kTurn / 2, "b:1"), "b:1") << "a call takes time";
  EXPECT_EQ(place.next(kNow + ControllerPlace::kTurn, "b:1"), "a:1");
  EXPECT_EQ(place.next(kNow + 2 * ControllerPlace::kTurn, "b:1"), "b:1");
}

TEST(ControllerPlace, WhereItWasToldAsSoonAsTheFolderSaysNothingElse) {
  ControllerPlace place("a:1");
  EXPECT_EQ(place.next(kNow, ""), "a:1");
  EXPECT_EQ(place.next(kNow, "b:1"), "b:1");
  EXPECT_EQ(place.next(kNow, "a:1"), "a:1");
}

TEST(ControllerPlace, TheOneThatAnsweredMayHaveMoved) {
  ControllerPlace place("a:1");
  EXPECT_EQ(place.next(kNow, "b:1"), "b:1");
  place.on_answer();
  EXPECT_EQ(place.next(kNow + absl::Seconds(1), "c:1"), "a:1");
  EXPECT_EQ(place.next(kNow + absl::Seconds(1) + ControllerPlace::kTurn, "c:1"), "c:1");
}

}  // namespace
}  // namespace evermoe
