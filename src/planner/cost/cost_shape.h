// A model's shape as the planner prices it: what the trainer can build, and what it cannot (yet).
//
// Multi-head latent attention (MLA, DeepSeek-V2 and V3) keeps queries, keys and values in narrow
// vectors: hidden -> query_rank
// -> heads (nope + rope), hidden -> key_value_rank + rope, key_value_rank -> heads (nope + value),
// heads value -> hidden. It is here for its sizes only: the trainer has no such layer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/model_shape.h"

namespace evermoe {

struct LatentAttention {
  int64_t query_rank = 0;
  int64_t key_value_rank = 0;
  int64_t nope_dim = 0;  // of a head's queries and keys, without positions
  int64_t rope_dim = 0;  // with positions
  int64_t value_dim = 0;
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

struct CostShape : ModelShape {
  CostShape() = default;
  CostShape(const ModelShape& shape)
      : ModelShape(shape) {}  // implicit: most models are no more than that

  std::optional<LatentAttention> latent;

  // Width per token of a layer's queries, keys, values and attention output together.
  int64_t attention_width() const;
  // Floating-point operations of a token forward for scores and weighted values, over half of the
  // sequence on average.
  double attention_work() const;
};

// As model_operators() and count_parameters().
std::vector<OperatorSpec> cost_operators(const CostShape& shape);
ParameterCounts count_parameters(const std::vector<OperatorSpec>& operators,
                                 const CostShape& shape);

// Presets that can be priced only: "deepseek-v3" (671B, 37B active; without its multi-token
// prediction).
std::vector<std::string> cost_preset_names();
// Nothing for any other name.
std::optional<CostShape> cost_preset(const std::string& name);
// The keys of a configuration's [model] that make the shape out of a trainable preset, so that
// settings can change them.
std::string cost_preset_toml(const CostShape& shape);

}  // namespace evermoe
