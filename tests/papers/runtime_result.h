// What runs of this runtime came to, kept in the project for docs/results.md: data/results/*.json.
//
//   {"version": 1, "kind": "experiment", "machine": "...", "command": "...",
//    "results": [{"system": "sparse", "failure_process": "exponential-40", "runs": 2,
//                 "unfinished": 0, "failures": 9, "ettr": 0.91, "ettr_half_width": 0.02,
//                 "predicted_ettr": 0.93, "step_seconds": 0.07, "lost_token_share": 0,
//                 "is_exact": true, "digests": 1}]}
//   {"version": 1, "kind": "partial-checkpoints", "machine": "...", "command": "...",
//    "config": "configs/gpt-moe-tiny.toml", "settings": ["model.layers=8"],
//    "results": [{"experts_saved": 1, "bytes": 1000}]}
//   {"version": 1, "kind": "accuracy", "machine": "...", "command": "...",
//    "config": "configs/tiny.toml", "steps": 2000, "save_every_steps": 20,
//    "results": [{"name": "sparse", "strategy": "sparse", "is_exact": true, "kills": 8,
//                 "digest": "...", "lost_token_share": 0, "validation_loss": 2.1,
//                 "validation_accuracy": 0.4}]}
//
// "ettr", "ettr_half_width" and "predicted_ettr" may be null: no run finished, fewer than two did,
// nothing was predicted. The program keep_result makes the first from an experiment's report.json
// (docs/experiments.md), bench/experts/partial_checkpoints.py the second and accuracy_study.py beside
// it the third, both from real jobs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace evermoe {

// Of all runs of one system under one failure process.
struct ExperimentResult {
  std::string system;  // a strategy's name, or any other
  std::string failure_process;
  int64_t runs = 0;  // that finished
  int64_t unfinished = 0;
  int64_t failures = 0;        // of the runs that finished
  std::optional<double> ettr;  // mean
  std::optional<double> ettr_half_width;
  std::optional<double> predicted_ettr;  // mean
  double step_seconds = 0;               // undisturbed, mean
  double lost_token_share = 0;           // mean
  bool is_exact = true;
  int64_t digests = 0;  // different ones at the ends
  friend bool operator==(const ExperimentResult&, const ExperimentResult&) = default;
};

struct PartialCheckpointResult {
  int64_t experts_saved = 0;  // K
  int64_t bytes = 0;          // of all files of one checkpoint
  friend bool operator==(const PartialCheckpointResult&, const PartialCheckpointResult&) = default;
};

// One run to the end, and what it has learned.
struct AccuracyResult {
  std::string name;
  std::string strategy;
  bool is_exact = true;
  int64_t kills = 0;
  std::string digest;
  double lost_token_share = 0;
  double validation_loss = 0;      // nats a token
  double validation_accuracy = 0;  // share of tokens that were the likeliest
  friend bool operator==(const AccuracyResult&, const AccuracyResult&) = default;
};

struct RuntimeResult {
  std::string machine;
  std::string command;
  std::vector<ExperimentResult> experiments;
  // Or partial checkpoints, all of one job: a configuration of the project, and what was set of it.
  std::string config;
  std::vector<std::string> settings;
  std::vector<PartialCheckpointResult> partial_checkpoints;
  // Or what was learned, with the same failures in all runs but the first, which has none.
  int64_t steps = 0;
  int64_t save_every_steps = 0;
  std::vector<AccuracyResult> accuracies;
  friend bool operator==(const RuntimeResult&, const RuntimeResult&) = default;
};

inline constexpr size_t kRuntimeResultBytesMax = 1 << 20;

// InvalidInput with one line "origin: key: found X, allowed: Y" for anything else.
absl::StatusOr<RuntimeResult> parse_runtime_result(const std::string& text,
                                                   const std::string& origin);
// Of kind "experiment", as text with a line break at its end. REQUIRES: experiments.
std::string to_json(const RuntimeResult& result);

// From the text of an experiment's report.json; machine and command are left empty. InvalidInput as
// above.
absl::StatusOr<RuntimeResult> result_of_report(const std::string& text, const std::string& origin);

}  // namespace evermoe
