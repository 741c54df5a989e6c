#include "planner/cost/cost_shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace evermoe {
namespace {

constexpr char kDeepSeekV3[] = "deepseek-v3";

// inference/configs/config_671B.json of deepseek-ai/DeepSeek-V3; trained with sequences of 4096.
CostShape deepseek_v3() {
  CostShape shape = preset("deepseek-moe-16b").value();
  shape.vocabulary = 129280;
  shape.sequence_length = 4096;
  shape.layers = 61;
  shape.hidden = 7168;
  shape.heads = shape.kv_heads = 128;
  shape.head_dim = 128;
  shape.dense_hidden = 18432;
  shape.expert_hidden = 2048;
  shape.shared_hidden = 2048;
  shape.experts = 256;
  shape.top_k = 8;
  shape.dense_first_layers = 3;
  shape.latent = LatentAttention{
      .query_rank = 1536, .key_value_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  return shape;
}

ParameterSpec matrix(std::string name, int64_t rows, int64_t columns) {
  return {.name = std::move(name), .shape = {rows, columns}};
}

// A block with latent attention instead of its own.
void replace_attention(const CostShape& shape, OperatorSpec& block) {
  std::erase_if(block.parameters, [](const ParameterSpec& parameter) {
    return parameter.name.starts_with("attention.");
  });
  const LatentAttention& latent = *shape.latent;
  const int64_t query = latent.nope_dim + latent.rope_dim;
  for (ParameterSpec parameter :
       {matrix("attention.query.down.weight", latent.query_rank, shape.hidden),
        matrix("attention.query.up.weight", shape.heads * query, latent.query_rank),
        matrix("attention.key_value.down.weight", latent.key_value_rank + latent.rope_dim,
               shape.hidden),
        matrix("attention.key_value.up.weight", shape.heads * (latent.nope_dim + latent.value_dim),
               latent.key_value_rank),
        matrix("attention.out.weight", shape.hidden, shape.heads * latent.value_dim)}) {
    block.parameters.push_back(std::move(parameter));
  }
  block.layout();
}

}  // namespace

int64_t CostShape::attention_width() const {
  if (!latent) return (2 * heads + 2 * kv_heads) * head_dim;
  return heads * (2 * (latent->nope_dim + latent->rope_dim) + 2 * latent->value_dim);
}

double CostShape::attention_work() const {
  const double widths =
      static_cast<double>(latent ? heads * (latent->nope_dim + latent->rope_dim + latent->value_dim)
                                 : 2 * heads * head_dim);
  return 2 * widths * static_cast<double>(sequence_length + 1) / 2;
}

std::vector<OperatorSpec> cost_operators(const CostShape& shape) {
  std::vector<OperatorSpec> operators = model_operators(shape);
  if (!shape.latent) return operators;
  for (OperatorSpec& spec : operators) {
    if (spec.kind == OperatorKind::kBlock) replace_attention(shape, spec);
  }
  return operators;
}

ParameterCounts count_parameters(const std::vector<OperatorSpec>& operators,
                                 const CostShape& shape) {
  ParameterCounts counts;
  for (const OperatorSpec& spec : operators) {
    const int64_t count = spec.parameter_count();
    counts.total += count;
    if (spec.kind != OperatorKind::kExpert) {
      counts.active += count;
      continue;
    }
    counts.experts += count;
    if (spec.expert < shape.top_k) counts.active += count;  // any top_k of the layer, all equal
  }
  return counts;
}

std::vector<std::string> cost_preset_names() { return {kDeepSeekV3}; }

std::optional<CostShape> cost_preset(const std::string& name) {
  if (name != kDeepSeekV3) return std::nullopt;
  return deepseek_v3();
}

std::string cost_preset_toml(const CostShape& shape) {
  return absl::StrFormat(
      "[model]\npreset = \"deepseek-moe-16b\"\nvocabulary = %d\nsequence_length = %d\nlayers = "
      "%d\nhidden = %d\nheads = %d\nkv_heads = %d\n"
      "head_dim = %d\ndense_hidden = %d\nexpert_hidden = %d\nshared_hidden = %d\nexperts = "
      "%d\ntop_k = %d\ndense_first_layers = %d\n",
      shape.vocabulary, shape.sequence_length, shape.layers, shape.hidden, shape.heads,
      shape.kv_heads, shape.head_dim, shape.dense_hidden, shape.expert_hidden, shape.shared_hidden,
      shape.experts, shape.top_k, shape.dense_first_layers);
}

}  // namespace evermoe
