#include "cli/operators/wanted_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Roles 0.0 and 0.1 on node 0, 1.0 and 1.1 on node 1.
JobStatus two_by_two() {
  JobStatus status;
  for (int rank = 0; rank < 4; ++rank) {
    status.roles.push_back({.rank = Rank(rank),
                            .name = std::to_string(rank / 2) + "." + std::to_string(rank % 2),
                            .node = Node(rank / 2)});
  }
  return status;
}

std::string refusal(const std::string& text) {
  const auto wish = wanted_places(text, "file", two_by_two());
  return wish.ok() ? "accepted" : std::string(wish.status().message());
}

TEST(WantedPlaces, NamesTheRolesThatAreElsewhere) {
  const auto wish =
      wanted_places("# all but one\n\"1.1\" = 3\n'0.0' = 0\n\"0.1\" = 2\n", "file", two_by_two());
  ASSERT_TRUE(wish.ok()) << wish.status();
  EXPECT_THAT(wish->roles, ElementsAre(Rank(1), Rank(3)));
  EXPECT_THAT(wish->to, ElementsAre(Node(2), Node(3)));
}

TEST(WantedPlaces, NothingMovesWhereAllAreInPlace) {
  for (const char* text : {"", "\"0.0\" = 0\n\"1.0\" = 1\n"}) {
    const auto wish = wanted_places(text, "file", two_by_two());
    ASSERT_TRUE(wish.ok()) << wish.status();
    EXPECT_THAT(wish->roles, IsEmpty());
  }
}

TEST(WantedPlaces, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_EQ(refusal("\"0.0\" = 1\n\"7.0\" = 1\n"),
            "file:2: 7.0 is no role of this job; \"0.0\" is one");
  EXPECT_EQ(refusal("1.0 = 2\n"), "file:1: 1 is no role of this job; \"0.0\" is one")
      << "a name without quotes is a table in TOML";
  for (const char* value : {"-1", "1.5", "\"2\"", "4294967296", "true", "[1]"}) {
    EXPECT_EQ(refusal(std::string("\n\"1.0\" = ") + value),
              "file:2: 1.0: allowed: the number of a node, as in \"1.0\" = 2");
  }
  EXPECT_THAT(refusal("\"1.0\" = 1\n\"1.0\" = 2\n"), testing::StartsWith("file:2:9: not TOML: "));
  EXPECT_THAT(refusal("\"1.0\" 2\n"), testing::StartsWith("file:1:7: not TOML: "));
}

}  // namespace
}  // namespace evermoe
