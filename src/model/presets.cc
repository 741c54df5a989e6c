// The built-in shapes. Where a published model differs from what the trainer computes, the comment
// says so; the tests compare the parameter counts with the published ones.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "model/model_shape.h"

namespace evermoe {
namespace {

struct Style {
  const char* name;
  int64_t shared_experts;
  void (*apply)(ModelShape&);
};

void apply_gpt_moe(ModelShape& shape) {
  shape.norm = NormKind::kLayerNorm;
  shape.activation = ActivationKind::kGelu;
  shape.position = PositionKind::kLearned;
  shape.scoring = ScoringKind::kSoftmaxThenTopK;
  shape.normalise_top_k = true;
  shape.linear_bias = true;
  shape.qkv_bias = false;
  shape.shared_gate = false;
}

void apply_llama_parts(ModelShape& shape) {
  shape.norm = NormKind::kRmsNorm;
  shape.activation = ActivationKind::kSwiGlu;
  shape.position = PositionKind::kRotary;
  shape.scoring = ScoringKind::kSoftmaxThenTopK;
  shape.normalise_top_k = false;
  shape.linear_bias = false;
  shape.qkv_bias = false;
  shape.shared_gate = false;
}

void apply_qwen_moe(ModelShape& shape) {
  apply_llama_parts(shape);
  shape.qkv_bias = true;
  shape.shared_gate = true;
}

void apply_mixtral(ModelShape& shape) {
  apply_llama_parts(shape);
  shape.scoring = ScoringKind::kTopKThenSoftmax;
}

constexpr Style kStyles[] = {
    {"gpt-moe", 0, apply_gpt_moe},
    {"qwen-moe", 4, apply_qwen_moe},
    {"deepseek-moe", 2, apply_llama_parts},
    {"mixtral", 0, apply_mixtral},
};

const Style* find_style(const std::string& name) {
  for (const Style& style : kStyles) {
    if (name == style.name) return &style;
  }
  return nullptr;
}

void apply(const Style& style, ModelShape& shape) {
  shape.style = style.name;
  style.apply(shape);
  shape.shared_hidden = style.shared_experts * shape.expert_hidden;
}

struct Sizes {
  int64_t vocabulary, sequence_length, layers, hidden, heads, kv_heads, head_dim;
  int64_t dense_hidden, expert_hidden, experts, top_k;
};

ModelShape make(const char* style, const Sizes& sizes) {
  ModelShape shape;
  shape.vocabulary = sizes.vocabulary;
  shape.sequence_length = sizes.sequence_length;
  shape.layers = sizes.layers;
  shape.hidden = sizes.hidden;
  shape.heads = sizes.heads;
  shape.kv_heads = sizes.kv_heads;
  shape.head_dim = sizes.head_dim;
  shape.dense_hidden = sizes.dense_hidden;
  shape.expert_hidden = sizes.expert_hidden;
  shape.experts = sizes.experts;
  shape.top_k = sizes.top_k;
  apply(*find_style(style), shape);
  return shape;
}

// GPT-MoE of MoEtion's table 2 (12 layers, top-6 of 32, 7.3B / 1.6B). Its widths are not published;
// these give the published totals.
ModelShape gpt_moe_7b() {
  return make("gpt-moe", {50304, 2048, 12, 1536, 16, 16, 96, 6144, 5952, 32, 6});
}

ModelShape mixtral_8x7b() {
  ModelShape shape = make("mixtral", {32000, 4096, 32, 4096, 32, 8, 128, 14336, 14336, 8, 2});
  shape.rope_theta = 1e6;
  return shape;
}

// MoEtion's QWen-MoE: its table counts the width of the shared experts as 4 more experts (64,
// top-8).
ModelShape qwen_a2_7b() {
  ModelShape shape = make("qwen-moe", {151936, 2048, 24, 2048, 16, 16, 128, 5632, 1408, 60, 4});
  shape.rope_theta = 1e6;
  shape.norm_epsilon = 1e-6;
  return shape;
}

ModelShape qwen_a14b() {
  ModelShape shape = make("qwen-moe", {151936, 4096, 28, 3584, 28, 4, 128, 18944, 2560, 64, 8});
  shape.shared_hidden = 20480;
  shape.rope_theta = 1e6;
  shape.norm_epsilon = 1e-6;
  return shape;
}

// MoEtion's DeepSeek-MoE. The published model chooses 6 routed experts (2.8B active); MoEtion's
// table says 8 and 3.7B.
ModelShape deepseek_16b() {
  ModelShape shape =
      make("deepseek-moe", {102400, 4096, 28, 2048, 16, 16, 128, 10944, 1408, 64, 6});
  shape.dense_first_layers = 1;
  shape.norm_epsilon = 1e-6;
  return shape;
}

// The language model of MoE-LLaVA-StableLM-1.6B-4e-top2 (2.9B / 2.0B, the totals in MoEtion's
// table), without the vision tower. Its rotary positions turn a quarter of each head; here all of
// it.
ModelShape moe_llava_language() {
  ModelShape shape = make("mixtral", {100352, 2048, 24, 2048, 32, 32, 64, 5632, 5632, 4, 2});
  shape.norm = NormKind::kLayerNorm;
  shape.qkv_bias = true;
  shape.moe_every = 2;
  return shape;
}

// Tiny: seconds on two cores.
ModelShape gpt_moe_tiny() {
  ModelShape shape = make("gpt-moe", {256, 64, 4, 64, 2, 2, 32, 256, 128, 8, 2});
  shape.moe_every = 2;
  return shape;
}
ModelShape qwen_moe_tiny() { return make("qwen-moe", {256, 64, 4, 64, 4, 2, 16, 192, 64, 8, 2}); }
ModelShape deepseek_moe_tiny() {
  ModelShape shape = make("deepseek-moe", {256, 64, 4, 64, 4, 4, 16, 192, 64, 16, 4});
  shape.dense_first_layers = 1;
  return shape;
}
ModelShape mixtral_tiny() { return make("mixtral", {256, 64, 4, 64, 4, 2, 16, 192, 128, 8, 2}); }

// Small: minutes on two cores.
ModelShape gpt_moe_small() {
  ModelShape shape = make("gpt-moe", {256, 128, 8, 256, 4, 4, 64, 1024, 512, 8, 2});
  shape.moe_every = 2;
  return shape;
}
ModelShape qwen_moe_small() {
  return make("qwen-moe", {256, 128, 8, 256, 8, 4, 32, 768, 128, 16, 4});
}
ModelShape deepseek_moe_small() {
  ModelShape shape = make("deepseek-moe", {256, 128, 8, 256, 8, 8, 32, 768, 128, 32, 6});
  shape.dense_first_layers = 1;
  return shape;
}
ModelShape mixtral_small() { return make("mixtral", {256, 128, 8, 256, 8, 4, 32, 768, 384, 8, 2}); }

struct Preset {
  const char* name;
  ModelShape (*shape)();
};

constexpr Preset kPresets[] = {
    {"gpt-moe-tiny", gpt_moe_tiny},
    {"gpt-moe-small", gpt_moe_small},
    {"gpt-moe-7.3b", gpt_moe_7b},
    {"qwen-moe-tiny", qwen_moe_tiny},
    {"qwen-moe-small", qwen_moe_small},
    {"qwen1.5-moe-a2.7b", qwen_a2_7b},
    {"qwen2-57b-a14b", qwen_a14b},
    {"deepseek-moe-tiny", deepseek_moe_tiny},
    {"deepseek-moe-small", deepseek_moe_small},
    {"deepseek-moe-16b", deepseek_16b},
    {"mixtral-tiny", mixtral_tiny},
    {"mixtral-small", mixtral_small},
    {"mixtral-8x7b", mixtral_8x7b},
    {"moe-llava-2.9b-language", moe_llava_language},
};

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

absl::StatusOr<ModelShape> preset(const std::string& name) {
  for (const Preset& preset : kPresets) {
    if (name == preset.name) return preset.shape();
  }
  return InvalidInput(
      absl::StrCat("no preset \"", name, "\", allowed: ", absl::StrJoin(preset_names(), ", ")));
}

std::vector<std::string> style_names() {
  std::vector<std::string> names;
  for (const Style& style : kStyles) names.push_back(style.name);
  return names;
}

absl::StatusOr<ModelShape> with_style(ModelShape shape, const std::string& style) {
  const Style* found = find_style(style);
  if (found == nullptr) {
    return InvalidInput(
        absl::StrCat("no style \"", style, "\", allowed: ", absl::StrJoin(style_names(), ", ")));
  }
  apply(*found, shape);
  return shape;
}

int64_t shared_experts_of_style(const std::string& style) {
  const Style* found = find_style(style);
  return found == nullptr ? 0 : found->shared_experts;
}

}  // namespace evermoe
