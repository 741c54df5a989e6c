// The page with plots.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "planner/plan/sweep_testing.h"
#include "planner/report/html_report.h"
#include "planner/report/report_charts.h"

namespace evermoe {
namespace {

TEST(HtmlReportTest, ThePageHoldsEverythingAndTextsCannotLeaveTheirPlace) {
  const Sweep result = sweep({{"n", {"1", "2"}}, {"k", {"</script><b>"}}}, pretended).value();
  const std::string html = to_html(report_page("a <b>title</b>", result));
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_NE(html.find("a &lt;b&gt;title"), std::string::npos);
  EXPECT_NE(html.find(std::string(chart_js())), std::string::npos);
  // Nothing is fetched: no element refers to anything outside.
  for (const char* reference : {"src=", "href=", "@import", "url("}) {
    const std::string own = html.substr(0, html.find(std::string(chart_js())));
    EXPECT_EQ(own.find(reference), std::string::npos) << reference;
  }
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
}

std::vector<nlohmann::json> plots_of(const ReportPage& page) {
  std::vector<nlohmann::json> plots;
  for (const ReportBlock& block : page.blocks) {
    if (const auto* chart = std::get_if<ReportChart>(&block))
      plots.push_back(nlohmann::json::parse(chart->config));
  }
  return plots;
}

TEST(HtmlReportTest, RefusedPointsAreGaps) {
  const auto plots = plots_of(report_page("t", sweep({{"n", {"1", "2"}}}, pretended).value()));
  ASSERT_EQ(plots.size(), 2u);
  const auto& datasets = plots[0]["data"]["datasets"];
  ASSERT_EQ(datasets.size(), 3u);  // mean and both ends of its interval
  EXPECT_DOUBLE_EQ(datasets[0]["data"][0].get<double>(), 90);
  EXPECT_DOUBLE_EQ(datasets[2]["data"][0].get<double>(), 91);
  EXPECT_TRUE(datasets[0]["data"][1].is_null());
}

TEST(HtmlReportTest, WordsAreBarsAndNumbersAreLines) {
  EXPECT_EQ(plots_of(report_page("t", sweep({{"n", {"1", "3"}}}, pretended).value()))[0]["type"],
            "line");
  EXPECT_EQ(
      plots_of(report_page(
          "t",
          sweep({{"protection.strategy", {"dense", "sparse"}}}, pretended).value()))[0]["type"],
      "bar");
}

TEST(HtmlReportTest, AxesHaveUnits) {
  EXPECT_EQ(axis_text("failures.node_mtbf_hours"), "failures.node_mtbf_hours (hours)");
  EXPECT_EQ(axis_text("links.nic_gb_per_second"), "links.nic_gb_per_second (GB/s)");
  EXPECT_EQ(axis_text("protection.strategy"), "protection.strategy");
  for (const auto& plot :
       plots_of(report_page("t", sweep({{"cluster.nodes", {"1", "3"}}}, pretended).value()))) {
    EXPECT_EQ(plot["options"]["scales"]["x"]["title"]["text"], "cluster.nodes (nodes)");
    EXPECT_NE(
        plot["options"]["scales"]["y"]["title"]["text"].get<std::string>().find("% of wall time"),
        std::string::npos);
  }
}

}  // namespace
}  // namespace evermoe
