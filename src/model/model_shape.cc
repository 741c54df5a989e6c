#include "model/model_shape.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

// Collects the parameters of one operator in the words of the header's table.
class OperatorBuilder {
 public:
  OperatorBuilder(const ModelShape& shape, std::string name, OperatorKind kind)
      : shape_(shape), residual_std_(shape.init_std / std::sqrt(2.0 * shape.layers)) {
    spec_.name = std::move(name);
    spec_.kind = kind;
  }

  void at(int64_t layer, int64_t expert = -1) {
    spec_.layer = static_cast<int>(layer);
    spec_.expert = static_cast<int>(expert);
  }

  void matrix(std::string name, int64_t rows, int64_t columns) {
    add(std::move(name), {rows, columns}, shape_.init_std);
  }
  // A matrix that writes into the residual stream: 2 layers of them add up, so each starts smaller.
  void residual_matrix(std::string name, int64_t rows, int64_t columns) {
    add(std::move(name), {rows, columns}, residual_std_);
  }
  void constant(std::string name, int64_t size, double value) {
    ParameterSpec parameter;
    parameter.name = std::move(name);
    parameter.shape = {size};
    parameter.decayed = false;
    parameter.init_constant = value;
    spec_.parameters.push_back(std::move(parameter));
  }
  void norm(const std::string& name) {
    constant(absl::StrCat(name, ".weight"), shape_.hidden, 1);
    if (shape_.norm == NormKind::kLayerNorm)
      constant(absl::StrCat(name, ".bias"), shape_.hidden, 0);
  }
  // up and down projections; `prefix` is "ffn.", "shared." or empty.
  void feed_forward(const std::string& prefix, int64_t width) {
    const int64_t up_rows = shape_.activation == ActivationKind::kSwiGlu ? 2 * width : width;
    matrix(absl::StrCat(prefix, "up.weight"), up_rows, shape_.hidden);
    if (shape_.linear_bias) constant(absl::StrCat(prefix, "up.bias"), up_rows, 0);
    residual_matrix(absl::StrCat(prefix, "down.weight"), shape_.hidden, width);
    if (shape_.linear_bias) constant(absl::StrCat(prefix, "down.bias"), shape_.hidden, 0);
  }

  OperatorSpec build() {
    spec_.layout();
    return std::move(spec_);
  }

 private:
  void add(std::string name, std::vector<int64_t> extents, double std) {
    ParameterSpec parameter;
    parameter.name = std::move(name);
    parameter.shape = std::move(extents);
    parameter.init_std = std;
    spec_.parameters.push_back(std::move(parameter));
  }

  const ModelShape& shape_;
  const double residual_std_;
  OperatorSpec spec_;
};

OperatorSpec embedding_operator(const ModelShape& shape) {
  OperatorBuilder builder(shape, "embedding", OperatorKind::kEmbedding);
  builder.matrix("token.weight", shape.vocabulary, shape.hidden);
  if (shape.position == PositionKind::kLearned) {
    builder.matrix("position.weight", shape.sequence_length, shape.hidden);
  }
  return builder.build();
}

void add_attention(const ModelShape& shape, OperatorBuilder& builder) {
  const int64_t qkv_rows = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  builder.matrix("attention.qkv.weight", qkv_rows, shape.hidden);
  if (shape.linear_bias || shape.qkv_bias) builder.constant("attention.qkv.bias", qkv_rows, 0);
  builder.residual_matrix("attention.out.weight", shape.hidden, shape.heads * shape.head_dim);
  if (shape.linear_bias) builder.constant("attention.out.bias", shape.hidden, 0);
}

OperatorSpec block_operator(const ModelShape& shape, int64_t layer) {
  OperatorBuilder builder(shape, absl::StrCat("layer.", layer, ".block"), OperatorKind::kBlock);
  builder.at(layer);
  builder.norm("norm1");
  builder.norm("norm2");
  add_attention(shape, builder);
  if (!shape.is_moe_layer(layer)) {
    builder.feed_forward("ffn.", shape.dense_hidden);
  } else if (shape.shared_hidden > 0) {
    builder.feed_forward("shared.", shape.shared_hidden);
    if (shape.shared_gate) builder.matrix("shared_gate.weight", 1, shape.hidden);
  }
  return builder.build();
}

OperatorSpec gate_operator(const ModelShape& shape, int64_t layer) {
  OperatorBuilder builder(shape, absl::StrCat("layer.", layer, ".gate"), OperatorKind::kGate);
  builder.at(layer);
  builder.matrix("weight", shape.experts, shape.hidden);
  return builder.build();
}

OperatorSpec expert_operator(const ModelShape& shape, int64_t layer, int64_t expert) {
  OperatorBuilder builder(shape, absl::StrCat("layer.", layer, ".expert.", expert),
                          OperatorKind::kExpert);
  builder.at(layer, expert);
  builder.feed_forward("", shape.expert_hidden);
  return builder.build();
}

OperatorSpec head_operator(const ModelShape& shape) {
  OperatorBuilder builder(shape, "head", OperatorKind::kHead);
  builder.norm("norm");
  builder.matrix("output.weight", shape.vocabulary, shape.hidden);
  return builder.build();
}

}  // namespace

std::vector<OperatorSpec> model_operators(const ModelShape& shape) {
  std::vector<OperatorSpec> operators;
  operators.push_back(embedding_operator(shape));
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    operators.push_back(block_operator(shape, layer));
    if (!shape.is_moe_layer(layer)) continue;
    operators.push_back(gate_operator(shape, layer));
    for (int64_t expert = 0; expert < shape.experts; ++expert) {
      operators.push_back(expert_operator(shape, layer, expert));
    }
  }
  operators.push_back(head_operator(shape));
  return operators;
}

ParameterCounts count_parameters(const ModelShape& shape) {
  ParameterCounts counts;
  int64_t in_one_expert = 0;
  int64_t moe_layers = 0;
  for (const OperatorSpec& spec : model_operators(shape)) {
    const int64_t count = spec.parameter_count();
    counts.total += count;
    if (spec.kind == OperatorKind::kGate) ++moe_layers;
    if (spec.kind != OperatorKind::kExpert) continue;
    counts.experts += count;
    in_one_expert = count;
  }
  counts.active = counts.total - counts.experts + moe_layers * shape.top_k * in_one_expert;
  return counts;
}

}  // namespace evermoe
