#include "base/check_story.h"

#include <gtest/gtest.h>

#include <optional>

#include "base/check.h"

namespace evermoe {
namespace {

TEST(CheckStoryTest, ACheckThatFailsTellsAllOfThemTheNewestFirst) {
  const CheckStory outer([] { return "seed 7"; });
  const CheckStory inner([] { return "step 3"; });
  EXPECT_DEATH(CHECK(1 + 1 == 3) << "sum", "CHECK failed: 1 \\+ 1 == 3 sum\nstep 3\nseed 7");
}

TEST(CheckStoryTest, WhatIsOverIsNotTold) {
  std::optional<CheckStory> outer([] { return "seed 7"; });
  {
    const CheckStory inner([] { return "step 3"; });
  }
  EXPECT_EQ(CheckStory::all(), "seed 7\n");
  outer.reset();
  EXPECT_EQ(CheckStory::all(), "");
}

TEST(CheckStoryTest, AStoryThatFailsItselfEndsTheProcessAllTheSame) {
  const CheckStory story([]() -> std::string {
    CHECK(false) << "inside";
    return "";
  });
  EXPECT_DEATH(CHECK(false) << "outside", "outside(.|\n)*inside");
}

}  // namespace
}  // namespace evermoe
