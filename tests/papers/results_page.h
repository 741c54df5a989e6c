// docs/results.md: what papers claim, what the forecast says of the same setting, and what runs of
// this runtime came to.
//
// No section computes anything itself: the comparisons are in *_comparison.h and skew_study.h, and
// what was measured is in data/results.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "papers/lazarus_comparison.h"
#include "papers/paper_tables.h"
#include "papers/runtime_result.h"
#include "planner/measured/runtime_profile.h"

namespace evermoe {

struct KeptResult {
  std::string file;  // of data/results
  RuntimeResult result;
};

struct ResultsInput {
  PaperTables tables;
  std::vector<RoutingRow> routing;  // smartmoe-expert-loads.csv
  FailureTrace spot;                // bamboo-ec2-p3.csv
  std::vector<KeptResult> kept;     // by file
  RuntimeProfile profile;           // data/results/job-profile.toml
};

// The result of a system under a failure process, of the first file that has it; null: not run.
const ExperimentResult* find_result(const std::vector<KeptResult>& kept, const std::string& system,
                                    const std::string& failure_process);

// The whole page as Markdown. Deterministic. Simulates some ten thousand runs: a few seconds.
std::string results_page(const ResultsInput& input);

// Its sections, in order.
std::string claims_section(const ResultsInput& input);
std::string runtime_section(const ResultsInput& input);
std::string moetion_sections(const PaperTables& tables);
std::string skew_sections(const PaperTables& tables);
std::string partial_experts_sections(const ResultsInput& input);
std::string lazarus_sections(const ResultsInput& input);
std::string many_nodes_section(const ResultsInput& input);
std::string trainmover_sections(const ResultsInput& input);
std::string planning_sections(const PaperTables& tables);
std::string not_compared_section();

}  // namespace evermoe
