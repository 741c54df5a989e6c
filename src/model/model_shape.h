// What a model is made of, without any arithmetic: one decoder-only transformer with Mixture-of-
// Experts layers, whose published variants (GPT-MoE, Qwen-MoE, DeepSeek-MoE, Mixtral) are settings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/operator.h"

namespace evermoe {

enum class NormKind { kLayerNorm, kRmsNorm };
enum class ActivationKind { kGelu, kSwiGlu };
enum class PositionKind { kLearned, kRotary };
// How gate logits become the weights of the chosen experts:
// softmax over all experts and then the k largest, or the k largest logits and then softmax over
// them. The first with normalise_top_k is mathematically the second.
enum class ScoringKind { kSoftmaxThenTopK, kTopKThenSoftmax };
// Who chooses a token's experts: its gate, or a draw (experts/load/synthetic_routing.h). The gate
// says with what weights in either case.
enum class RoutingKind { kGate, kSynthetic };

struct ModelShape {
  std::string style = "qwen-moe";  // the preset family the other values were taken from
  int64_t vocabulary = 256;        // rows of the embedding, a multiple of 64
  int64_t sequence_length = 128;   // tokens of one training sequence; rows of learned positions
  int64_t layers = 4;
  int64_t hidden = 128;  // a multiple of 64
  int64_t heads = 4;
  int64_t kv_heads = 4;  // divides heads (grouped-query attention)
  int64_t head_dim = 32;
  int64_t dense_hidden = 256;   // width of a dense feed-forward, a multiple of 64
  int64_t expert_hidden = 128;  // width of one expert, a multiple of 64
  int64_t shared_hidden = 0;    // total width of the shared experts, 0 for none
  bool shared_gate = false;     // shared experts scaled by a sigmoid gate (Qwen-MoE)
  int64_t experts = 8;
  int64_t top_k = 2;
  int64_t moe_every = 1;           // every n-th layer is MoE (layers n-1, 2n-1, ...)
  int64_t dense_first_layers = 0;  // these are dense in any case
  NormKind norm = NormKind::kRmsNorm;
  ActivationKind activation = ActivationKind::kSwiGlu;
  PositionKind position = PositionKind::kRotary;
  ScoringKind scoring = ScoringKind::kSoftmaxThenTopK;
  bool normalise_top_k = false;
  double routed_scale = 1.0;  // factor on the routed experts' sum
  bool linear_bias = false;   // biases in all linear maps but gate and head (GPT)
  bool qkv_bias = false;      // biases in query, key, value only (Qwen)
  double rope_theta = 10000;
  double norm_epsilon = 1e-5;
  double balance_loss = 0.01;  // coefficient of the load-balancing loss
  double z_loss = 0.001;       // coefficient of the router z-loss
  double init_std = 0.02;
  RoutingKind routing = RoutingKind::kGate;
  double routing_skew = 0;          // synthetic: expected skew of the experts' popularity
  int64_t routing_drift_steps = 0;  // synthetic: popularity is drawn anew so often; 0: never

  // Layer index from 0.
  bool is_moe_layer(int64_t layer) const {
    return layer >= dense_first_layers && (layer + 1) % moe_every == 0;
  }
  int moe_layers_before(int64_t layer) const {
    int count = 0;
    for (int64_t l = 0; l < layer; ++l) count += is_moe_layer(l) ? 1 : 0;
    return count;
  }
  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

// All operators of the model in canonical order: embedding; for each layer block, gate, experts;
// head. Parameter names and shapes ([out, in] for matrices):
//   embedding  token.weight [vocabulary, hidden];
//              position.weight [sequence_length, hidden] (learned)
//   block      norm1.weight, norm2.weight [hidden] (.bias with LayerNorm)
//              attention.qkv.weight [(heads + 2 kv_heads) head_dim, hidden] (.bias)
//              attention.out.weight [hidden, heads head_dim] (.bias)
//              dense layers: ffn.up.weight [2 dense_hidden, hidden] for SwiGLU (gate rows first,
//              then up rows), [dense_hidden, hidden] for GELU (.bias); ffn.down.weight (.bias)
//              shared experts: shared.up.weight, shared.down.weight like ffn;
//              shared_gate.weight [1, hidden]
//   gate       weight [experts, hidden]
//   expert     up.weight [2 expert_hidden or expert_hidden, hidden],
//              down.weight [hidden, expert_hidden] (.bias)
//   head       norm.weight (.bias), output.weight [vocabulary, hidden]
// Norm weights and all biases are not decayed; norm weights start at 1, biases at 0; attention.out
// and every down.weight start with init_std / sqrt(2 layers), the rest with init_std.
std::vector<OperatorSpec> model_operators(const ModelShape& shape);

struct ParameterCounts {
  int64_t total = 0;
  int64_t active = 0;   // used by one token
  int64_t experts = 0;  // in all routed experts
};
ParameterCounts count_parameters(const ModelShape& shape);

// Names of the built-in shapes, and one of them. Real ones follow the papers' models; the "tiny"
// and "small" ones train on a laptop in seconds and minutes. InvalidInput for an unknown name lists
// them.
std::vector<std::string> preset_names();
absl::StatusOr<ModelShape> preset(const std::string& name);

// The styles: gpt-moe, qwen-moe, deepseek-moe, mixtral. A style decides what kind of parts a model
// is made of (norm, activation, positions, biases, shared experts, scoring), a preset also their
// sizes. InvalidInput for an unknown name lists them.
std::vector<std::string> style_names();
// `shape` with the parts of a style. Sizes stay, but for shared_hidden, which becomes
// shared_experts_of_style() times expert_hidden.
absl::StatusOr<ModelShape> with_style(ModelShape shape, const std::string& style);
// How many experts' width the shared experts of a style have: 0 for styles without them and for
// unknown names.
int64_t shared_experts_of_style(const std::string& style);

}  // namespace evermoe
