// What `evermoe sim --machines` prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_binary_testing.h"

namespace evermoe {
namespace {

using ::testing::ContainsRegex;

class ControlCostReportTest : public BinaryTest {
 protected:
  nlohmann::json report(int machines) {
    return nlohmann::json::parse(
        printed({"sim", "--machines", std::to_string(machines), "--json"}));
  }
};

TEST_F(ControlCostReportTest, WhatARoleCostsIsWhatAllCostByTheirNumber) {
  const nlohmann::json report = this->report(8);
  const double roles = report.at("roles");
  EXPECT_EQ(roles, 32);
  ASSERT_EQ(report.at("phases").size(), 5u);
  for (const nlohmann::json& phase : report.at("phases")) {
    SCOPED_TRACE(phase.dump());
    const auto number = [&](const char* key) { return phase.at(key).get<double>(); };
    EXPECT_DOUBLE_EQ(number("messages_per_role") * roles,
                     number("messages_in") + number("messages_out"));
    EXPECT_DOUBLE_EQ(number("bytes_per_role") * roles, number("bytes_in") + number("bytes_out"));
    EXPECT_NEAR(number("controller_microseconds_per_role") * roles,
                number("controller_seconds") * 1e6, 1e-3);
    const bool is_minute = phase.at("what") == "60 steps of a second";
    EXPECT_EQ(phase.at("messages_per_second").is_null(), !is_minute);
    if (is_minute) {
      EXPECT_DOUBLE_EQ(number("messages_per_second") * 60,
                       number("messages_in") + number("messages_out"));
    }
  }
}

TEST_F(ControlCostReportTest, ARoleCostsTheSameInAJobOfAnySize) {
  const nlohmann::json small = report(16), large = report(64);
  for (size_t phase = 0; phase < 5; ++phase) {
    SCOPED_TRACE(large.at("phases")[phase].dump());
    const auto grows = [&](const char* key) {
      return large.at("phases")[phase].at(key).get<double>() /
             small.at("phases")[phase].at(key).get<double>();
    };
    EXPECT_LT(grows("messages_per_role"), 1.2);
    EXPECT_LT(grows("bytes_per_role"), 1.2);
  }
}

TEST_F(ControlCostReportTest, PeopleSeeTheRateOfTheSteps) {
  const std::string text = printed({"sim", "--machines", "8"});
  EXPECT_THAT(text, ContainsRegex("messages +a role +bytes +a role +seconds +us/role"));
  EXPECT_THAT(text, ContainsRegex("60 steps of a second: [0-9]+ messages a second heard"));
}

}  // namespace
}  // namespace evermoe
