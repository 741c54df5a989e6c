#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planner/plan/plan_testing.h"
#include "planner/plan/sweep.h"
#include "planner/plan/sweep_testing.h"

namespace evermoe {
namespace {

TEST(ParseSweepTest, ListsAndDoublings) {
  EXPECT_EQ(parse_sweep("a.b=1,x,3")->values, (std::vector<std::string>{"1", "x", "3"}));
  EXPECT_EQ(parse_sweep("a.b=3..13")->values, (std::vector<std::string>{"3", "6", "12"}));
  EXPECT_EQ(parse_sweep("a.b=0.5..1")->values, (std::vector<std::string>{"0.5", "1"}));
  for (const char* text : {"", "a", "a=", "=1", "a=1,,2", "a=0..4", "a=4..1", "a=x..y", "a=1..inf",
                           "a=1e-320..1e300"}) {
    EXPECT_EQ(message_of(parse_sweep(text).status()).substr(0, 13), "sweep: found ") << text;
  }
}

TEST(SweepTest, EveryCombinationOnceAndRefusalsArePoints) {
  const Sweep result = sweep({{"n", {"1", "2"}}, {"k", {"a", "b", "c"}}}, pretended).value();
  ASSERT_EQ(result.points.size(), 6u);
  EXPECT_EQ(result.points[2].forecast->model, "k=c");
  EXPECT_EQ(result.points[3].values, (std::vector<std::string>{"2", "a"}));
  EXPECT_EQ(result.points[3].refused, "too small");
  const auto json = nlohmann::json::parse(to_json(result));
  EXPECT_EQ(json[2]["settings"], (nlohmann::json{{"n", "1"}, {"k", "c"}}));
  EXPECT_EQ(json[2]["forecast"]["estimates"]["ettr"]["mean"], 0.9);
  EXPECT_EQ(json[4]["refused"], "too small");
  EXPECT_NE(to_text(result).find("90.00 ± 1.00 %"), std::string::npos) << to_text(result);
  EXPECT_EQ(message_of(sweep({{"n", {"1", "bad"}}}, pretended).status()), "n=bad: no such thing");
  const std::vector<std::string> many(200, "1");
  EXPECT_EQ(message_of(sweep({{"n", many}, {"k", many}}, pretended).status()),
            "sweep: found 40000 points, allowed: at most 1000");
}

}  // namespace
}  // namespace evermoe
