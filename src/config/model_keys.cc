#include "config/model_keys.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "config/key_builders.h"

namespace evermoe {
namespace {

using C = JobConfig;
using enum KeyScope;

// Keeps every product of sizes far inside 64 bits.
constexpr int64_t kShapeSizeMax = 1 << 20;
constexpr IntegerRange kWidth{64, kShapeSizeMax, 64};

ConfigKey preset_key() {
  ConfigKey key{"model.preset", absl::StrJoin(preset_names(), ", "),
                "the shape that the other model keys change", kModel, KeyPhase::kPreset};
  key.is_text = true;
  key.read = [](const FoundValue& found, JobConfig& config) {
    const std::string* name = std::get_if<std::string>(&found.value);
    if (name == nullptr) return false;
    const absl::StatusOr<ModelShape> shape = preset(*name);
    if (shape.ok()) config.model = *shape;
    return shape.ok();
  };
  key.write = [](const JobConfig&) { return std::string(); };
  return key;
}

ConfigKey style_key() {
  ConfigKey key{
      "model.style", absl::StrJoin(style_names(), ", "),
      "sets norm, activation, position, scoring, normalise_top_k, the biases, shared_gate "
      "and, unless it is given too, shared_hidden",
      kModel, KeyPhase::kStyle};
  key.is_text = true;
  key.read = [](const FoundValue& found, JobConfig& config) {
    const std::string* name = std::get_if<std::string>(&found.value);
    if (name == nullptr) return false;
    // A preset of this very style may differ from it on purpose.
    if (*name == config.model.style) return true;
    const absl::StatusOr<ModelShape> shape = with_style(config.model, *name);
    if (shape.ok()) config.model = *shape;
    return shape.ok();
  };
  key.write = [](const JobConfig& config) { return quoted(config.model.style); };
  return key;
}

std::vector<ConfigKey> size_keys() {
  using M = ModelShape;
  return {
      preset_key(),
      style_key(),
      integer_key("model.vocabulary", Field{&C::model, &M::vocabulary}, {64, 1 << 24, 64}, kModel,
                  "rows of the embedding, at least the tokenizer's vocabulary"),
      integer_key("model.sequence_length", Field{&C::model, &M::sequence_length},
                  {1, kShapeSizeMax}, kModel, "tokens of one training sequence"),
      integer_key("model.layers", Field{&C::model, &M::layers}, {1, 4096}, kModel,
                  "number of layers"),
      integer_key("model.hidden", Field{&C::model, &M::hidden}, kWidth, kModel,
                  "width of the residual stream"),
      integer_key("model.heads", Field{&C::model, &M::heads}, {1, 4096}, kModel, "attention heads"),
      integer_key("model.kv_heads", Field{&C::model, &M::kv_heads}, {1, 4096}, kModel,
                  "key and value heads, a divisor of heads"),
      integer_key("model.head_dim", Field{&C::model, &M::head_dim}, {2, 4096, 2}, kModel,
                  "width of one head; heads * head_dim is a multiple of 64"),
      integer_key("model.dense_hidden", Field{&C::model, &M::dense_hidden}, kWidth, kModel,
                  "width of the feed-forward network of layers that are not MoE"),
      integer_key("model.expert_hidden", Field{&C::model, &M::expert_hidden}, kWidth, kModel,
                  "width of one expert"),
      integer_key("model.shared_hidden", Field{&C::model, &M::shared_hidden},
                  {0, kShapeSizeMax, 64}, kModel, "total width of the shared experts, 0 for none"),
      integer_key("model.experts", Field{&C::model, &M::experts}, {1, 65536}, kModel,
                  "routed experts of an MoE layer"),
      integer_key("model.top_k", Field{&C::model, &M::top_k}, {1, 1024}, kModel,
                  "experts chosen for each token"),
      integer_key("model.moe_every", Field{&C::model, &M::moe_every}, {1, 4096}, kModel,
                  "n: every n-th layer is an MoE layer (counted from 0: n-1, 2n-1, ...)"),
      integer_key("model.dense_first_layers", Field{&C::model, &M::dense_first_layers}, {0, 4096},
                  kModel, "how many of the first layers are dense, whatever moe_every says"),
  };
}

std::vector<ConfigKey> part_keys() {
  using M = ModelShape;
  return {
      choice_key("model.norm", Field{&C::model, &M::norm},
                 {{"layernorm", NormKind::kLayerNorm}, {"rmsnorm", NormKind::kRmsNorm}}, kModel,
                 "normalisation before attention, feed-forward network and head"),
      choice_key("model.activation", Field{&C::model, &M::activation},
                 {{"gelu", ActivationKind::kGelu}, {"swiglu", ActivationKind::kSwiGlu}}, kModel,
                 "activation function of feed-forward networks and experts"),
      choice_key("model.position", Field{&C::model, &M::position},
                 {{"learned", PositionKind::kLearned}, {"rotary", PositionKind::kRotary}}, kModel,
                 "how positions are encoded"),
      choice_key("model.scoring", Field{&C::model, &M::scoring},
                 {{"softmax-then-top-k", ScoringKind::kSoftmaxThenTopK},
                  {"top-k-then-softmax", ScoringKind::kTopKThenSoftmax}},
                 kModel, "how gate logits become the weights of the chosen experts"),
      bool_key("model.normalise_top_k", Field{&C::model, &M::normalise_top_k}, kModel,
               "whether the weights of the chosen experts are scaled to sum to 1"),
      number_key("model.routed_scale", Field{&C::model, &M::routed_scale}, {0, 1000, true}, kModel,
                 "factor applied to the sum of the routed experts' outputs"),
      bool_key("model.shared_gate", Field{&C::model, &M::shared_gate}, kModel,
               "whether a sigmoid gate scales the shared experts' output"),
      bool_key("model.linear_bias", Field{&C::model, &M::linear_bias}, kModel,
               "whether all linear maps except gate and head have biases"),
      bool_key("model.qkv_bias", Field{&C::model, &M::qkv_bias}, kModel,
               "whether query, key and value projections have biases"),
      number_key("model.rope_theta", Field{&C::model, &M::rope_theta}, {1, 1e9}, kModel,
                 "base of the rotary wavelengths"),
      number_key("model.norm_epsilon", Field{&C::model, &M::norm_epsilon}, {0, 1, true}, kModel,
                 "added to the variance in normalisation layers"),
      number_key("model.balance_loss", Field{&C::model, &M::balance_loss}, {0, 1000}, kBits,
                 "coefficient of the load-balancing loss"),
      number_key("model.z_loss", Field{&C::model, &M::z_loss}, {0, 1000}, kBits,
                 "coefficient of the router z-loss"),
      number_key("model.init_std", Field{&C::model, &M::init_std}, {0, 10, true}, kBits,
                 "standard deviation of the initial weights"),
      choice_key("model.routing", Field{&C::model, &M::routing},
                 {{"gate", RoutingKind::kGate}, {"synthetic", RoutingKind::kSynthetic}}, kBits,
                 "who chooses a token's experts: the gate, or, for studies of skewed popularity, a "
                 "draw by routing_skew; weights are the gate's in either case"),
      number_key(
          "model.routing_skew", Field{&C::model, &M::routing_skew},
          {0, 1, false, /*max_open=*/true}, kBits,
          "synthetic routing: expected skew of the experts' popularity (normalised HHI, of a "
          "symmetric Dirichlet law); 0: all are equally popular"),
      integer_key("model.routing_drift_steps", Field{&C::model, &M::routing_drift_steps},
                  {0, 1'000'000'000}, kBits,
                  "synthetic routing: steps after which popularity is drawn anew; 0: never"),
  };
}

}  // namespace

std::vector<ConfigKey> model_keys() {
  std::vector<ConfigKey> keys = size_keys();
  for (ConfigKey& key : part_keys()) keys.push_back(std::move(key));
  return keys;
}

}  // namespace evermoe
