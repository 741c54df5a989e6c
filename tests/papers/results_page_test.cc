// docs/results.md is what the comparisons say today.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "papers/results_input.h"
#include "papers/results_page.h"

namespace evermoe {
namespace {

TEST(ResultsPageTest, TheCommittedPageIsTheGeneratedOne) {
  const auto input = load_results_input();
  ASSERT_TRUE(input.ok()) << input.status();
  const std::string page = results_page(*input);
  const std::string name = "docs/results.md";
  if (std::getenv("EVERMOE_WRITE_DOCS") != nullptr) std::ofstream(source_path(name)) << page;
  EXPECT_EQ(source_text(name).value_or(""), page)
      << "EVERMOE_WRITE_DOCS=1 paper_test --gtest_filter=ResultsPageTest.* writes it";
}

TEST(ResultsPageTest, WhatWasNotRunIsSaidAndWhatWasRunIsFound) {
  ResultsInput input = load_results_input().value();
  input.kept.clear();
  const auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count(claims_section(input), "not run yet"), 20);  // 5 MTBFs of 4 systems
  input.kept.push_back({"x.json",
                        {.experiments = {{.system = "sparse",
                                          .failure_process = "exponential-207",
                                          .runs = 2,
                                          .ettr = 0.875,
                                          .ettr_half_width = 0.011}}}});
  const std::string claims = claims_section(input);
  EXPECT_EQ(count(claims, "not run yet"), 19);
  EXPECT_EQ(count(claims, "| `sparse` | 0.875 ± 0.011 |"), 1) << claims;
}

}  // namespace
}  // namespace evermoe
