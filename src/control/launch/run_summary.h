// How a run ended, for people and for scripts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "control/controller/failure_record.h"
#include "control/launch/run_outcome.h"

namespace evermoe {

struct RunSummary {
  RunStatus status = RunStatus::kFailed;
  int exit_code = 1;
  std::string reason;
  std::string strategy;         // protection.strategy
  bool is_exact = true;         // false: a recovery may lose work of the experts
  double lost_token_share = 0;  // what recoveries have lost of it; 0 for exact strategies
  Step steps;  // finished, drained, nothing to do: of the checkpoint; failed: the newest committed
  std::optional<std::string> digest;  // of the newest checkpoint: 32 hexadecimal digits
  int restarts = 0;
  std::optional<double> final_loss;           // of the newest step
  std::optional<double> validation_loss;      // the newest
  std::optional<double> validation_accuracy;  // of the same evaluation, if it was in this run
  std::optional<double> tokens_per_second;    // median over the newest steps of this run
  double seconds = 0;                         // of this run
  std::vector<FailureRecord> failures;
  std::vector<LanesChanged> membership;  // who trained from which state on, oldest first
  std::vector<ExpertMove> moves;         // of experts, likewise
  std::vector<MoveRecord> role_moves;    // RunOutcome::role_moves
  std::vector<StragglerRecord> stragglers;
  std::vector<SlowLinkRecord> slow_links;
  std::optional<int64_t> samples_trained;  // of the newest checkpoint
  // More than its steps have: 0, or samples were trained twice; below 0: left out.
  std::optional<int64_t> samples_doubled;
  std::string out;
  std::optional<std::string> checkpoint;
  std::string metrics;
  std::string curve;
};

// One line without its newline: the fields that scripts rely on (status, steps, digest, restarts,
// final_loss, validation_loss, tokens_per_s, failures, strategy, is_exact, lost_token_share), then
// reason, seconds and paths. What is not known is null.
std::string to_json(const RunSummary& summary);
// A few lines.
std::string to_text(const RunSummary& summary);
// "step 200: the busiest lane has 1.21 instead of 1.64 times the mean, 41.2 MB moved in 0.31 s".
std::string to_text(const ExpertMove& move);
// "1.0 on node 1 at step 95: it computed 1.21 times as long as others, until step 130".
std::string to_text(const StragglerRecord& straggler);
std::string to_text(const SlowLinkRecord& link);
// "3 2 from step 25 on, 5 nodes: node 2 is lost".
std::string to_text(const LanesChanged& change);

// 12345 -> "12.3k", 850 -> "850".
std::string short_number(double value);

}  // namespace evermoe
