#include "config/elastic/elastic_keys.h"

#include "absl/strings/str_cat.h"
#include "config/job_topology.h"
#include "config/parse_config_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ElasticKeys, AHistoryIsAListOfStepsAndLanes) {
  EXPECT_EQ(parse_lane_history("")->size(), 0u);
  EXPECT_THAT(*parse_lane_history("12 2 3, 30 3 3"),
              ElementsAre(LaneHistoryEntry{12, {2, 3}}, LaneHistoryEntry{30, {3, 3}}));
  EXPECT_THAT(*parse_lane_history("0 1"), ElementsAre(LaneHistoryEntry{0, {1}}));
  for (const char* const text : {"12", "-1 1", "12 0", "12 2,", "12 2, 12 3", "12 2, 4 3", "a 2",
                                 "12 b", "12 2 3 x", ",", " "})
    EXPECT_FALSE(parse_lane_history(text)) << text;
}

constexpr char kLanes[] = "[parallel]\nstages = 2\nlanes = [3, 3]\n";

std::string refusal(const std::string& elastic, const std::string& more = "") {
  return error_of(std::string(kLanes) + "[elastic]\n" + elastic + more);
}

TEST(ElasticKeys, WhatCannotBeIsRefusedInOneLine) {
  EXPECT_EQ(
      parsed(std::string(kLanes) + "[elastic]\nhistory = \"12 2 3, 30 3 3\"\n").elastic.history,
      "12 2 3, 30 3 3");
  EXPECT_THAT(refusal("history = \"12 2\"\n"), HasSubstr("one for each of parallel.stages (2)"));
  EXPECT_THAT(refusal("history = \"12 2 4\"\n"),
              HasSubstr("found 4 lanes of stage 1 at step 12, allowed: at most those of "
                        "parallel.lanes (3)"));
  EXPECT_THAT(refusal("history = \"12 2 three\"\n"), HasSubstr("elastic.history"));
  EXPECT_THAT(refusal("enabled = true\nhistory = \"12 2 3\"\n"),
              HasSubstr("empty with elastic.enabled = true"));
  EXPECT_THAT(refusal("enabled = true\nmin_nodes = 7\n", "[run]\nnodes = 6\n"),
              HasSubstr("elastic.min_nodes: found 7, allowed: at most run.nodes (6)"));
  EXPECT_THAT(refusal("widths = [2]\n"), HasSubstr("[] without elastic.enabled = true"));
  EXPECT_THAT(refusal("enabled = true\nwidths = [2, 4]\n"),
              HasSubstr("elastic.widths: found [2, 4], allowed: at most the lanes of a stage (3)"));
  for (const char* const widths : {"[3, 2]", "[0]", "2", "[2, 2]"})
    EXPECT_THAT(refusal(absl::StrCat("enabled = true\nwidths = ", widths, "\n")),
                HasSubstr("array of ascending integers"));
  EXPECT_THAT(refusal("enabled = true\n", "[protection]\nstrategy = \"partial-experts\"\n"),
              HasSubstr("elastic.enabled"));
}

TEST(ElasticKeys, MemoryIsForAsFewLanesAsMayTrain) {
  const auto lanes = [](const std::string& elastic) {
    return narrowest_lanes(parsed(std::string(kLanes) + elastic));
  };
  EXPECT_THAT(lanes(""), ElementsAre(3, 3));
  EXPECT_THAT(lanes("[elastic]\nhistory = \"12 2 3, 30 3 1\"\n"), ElementsAre(2, 1));
  EXPECT_THAT(lanes("[elastic]\nenabled = true\n[run]\nnodes = 6\n"), ElementsAre(1, 1));
  EXPECT_THAT(
      lanes("[elastic]\nenabled = true\nwidths = [1, 3]\nmin_nodes = 6\n[run]\nnodes = 6\n"),
      ElementsAre(1, 1));
  EXPECT_THAT(lanes("[elastic]\nenabled = true\nmin_nodes = 6\n[run]\nnodes = 6\n"),
              ElementsAre(2, 2));
}

}  // namespace
}  // namespace evermoe
