// What a job's configuration says of its data.
#pragma once

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "data/evaluation_order.h"
#include "data/token_source.h"

namespace evermoe {

TokenSource token_source(const DataConfig& data);

// What an evaluation reads of so many held-out tokens.
EvaluationOrder evaluation_order(const JobConfig& config, int64_t held_out_tokens);

// Micro-batches of an evaluation, from the size of the held-out text alone: an upper bound where a
// SentencePiece model makes its tokens. NotFound, Corrupt or InvalidInput as source_facts().
absl::StatusOr<int64_t> evaluation_micro_batches_max(const JobConfig& config);

}  // namespace evermoe
