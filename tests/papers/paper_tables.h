// The numbers that papers print, as rows (data/planner/README.md says where they come from).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/failures/failure_trace.h"

namespace evermoe {

// MoEtion, Tables 3 and 7: one system at one MTBF, over runs of 12 hours.
struct PaperEttrRow {
  std::string model;  // or the number formats of Table 7
  std::string mtbf;   // as printed: "2H", "10M"
  double mtbf_seconds = 0;
  std::string system;  // CheckFreq, Gemini, MoC, MoEtion
  double interval_steps = 0;
  int window = 0;               // MoEtion only
  double overhead_seconds = 0;  // per step
  double recovery_seconds = 0;  // of all failures of the run
  double ettr = 0;
};

// What the tables imply of a model: the step time from the seconds and percent of MoC's rows.
struct PaperModelInputs {
  std::string table;  // "Table 3" or "Table 7"
  std::string model;
  double step_seconds = 0;
  int window = 0;
  double parameters = 0;
  double frozen_bytes = 0;  // per parameter, compute-only
  double active_bytes = 0;  // per parameter, in full without the compute weights
  int stages = 0;
  int rounds = 0;  // micro-batches of a pipeline
};

struct PaperMemoryRow {
  std::string model;
  double gemini_bytes = 0;  // of host memory
  double moetion_checkpoint_bytes = 0;
  double moetion_log_bytes = 0;
};

struct PaperMttfRow {
  std::string scope;
  double gpus = 0;  // 0 where the row is not about a number of GPUs
  std::string metric;
  double value = 0;
  std::string unit;
  std::string kind;  // observed, projected, reported, derived
};

struct PaperTables {
  std::vector<PaperEttrRow> table3;
  std::vector<PaperEttrRow> table7;
  std::vector<PaperMemoryRow> table6;
  std::vector<PaperModelInputs> inputs;
  std::vector<PaperMttfRow> mttf;
  FailureTrace six_hours;  // with 24 instants at which nodes were lost: a stand-in for MoEtion's
                           // unpublished one

  // REQUIRES: there is one.
  const PaperModelInputs& inputs_of(const std::string& table, const std::string& model) const;
};

// The texts of the files in data/planner.
struct PaperTexts {
  std::string table3, table6, table7, derived_inputs, reported_mttf, six_hours_trace;
};

// InvalidInput with file name, line and column for anything that is not such a table.
absl::StatusOr<PaperTables> parse_paper_tables(const PaperTexts& texts);

}  // namespace evermoe
