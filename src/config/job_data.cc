#include "config/job_data.h"

#include "base/error.h"

namespace evermoe {

TokenSource token_source(const DataConfig& data) {
  return {.path = data.path,
          .tokenizer = data.tokenizer,
          .validation_path = data.validation_path,
          .validation_fraction = data.validation_fraction};
}

EvaluationOrder evaluation_order(const JobConfig& config, int64_t held_out_tokens) {
  return {.tokens = held_out_tokens,
          .sequence_length = config.model.sequence_length,
          .micro_batch_size = config.train.micro_batch_size,
          .micro_batches_max = config.evaluate.micro_batches};
}

absl::StatusOr<int64_t> evaluation_micro_batches_max(const JobConfig& config) {
  const DataConfig& data = config.data;
  const bool is_apart = !data.validation_path.empty();
  ASSIGN_OR_RETURN(const SourceFacts facts,
                   source_facts(is_apart ? data.validation_path : data.path, data.tokenizer));
  const int64_t held_out =
      is_apart ? facts.tokens_max : held_out_tokens(facts.tokens_max, data.validation_fraction);
  return evaluation_order(config, held_out).micro_batches();
}

}  // namespace evermoe
