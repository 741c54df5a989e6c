#include "export/export_config.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

// What all classes call by the same name. Special tokens are null: the classes' defaults name those
// of their own vocabularies.
Json common_config(const ModelShape& shape, ExportFormat format, ElementType type) {
  const char* const dtype = type == ElementType::kBf16 ? "bfloat16" : "float32";
  return {{"architectures", {architecture_name(format)}},
          {"model_type", nullptr},
          {"dtype", dtype},
          {"torch_dtype", dtype},  // its name before transformers 5
          {"vocab_size", shape.vocabulary},
          {"hidden_size", shape.hidden},
          {"num_hidden_layers", shape.layers},
          {"num_attention_heads", shape.heads},
          {"num_key_value_heads", shape.kv_heads},
          {"head_dim", shape.head_dim},
          {"hidden_act", "silu"},
          {"max_position_embeddings", shape.sequence_length},
          {"initializer_range", shape.init_std},
          {"rms_norm_eps", shape.norm_epsilon},
          {"rope_theta", shape.rope_theta},  // its place before transformers 5
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", shape.rope_theta}}},
          {"tie_word_embeddings", false},
          {"attention_dropout", 0.0},
          {"router_aux_loss_coef", shape.balance_loss},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"pad_token_id", nullptr}};
}

void add_qwen2(const ModelShape& shape, Json& config) {
  Json dense_layers = Json::array();
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    if (!shape.is_moe_layer(layer)) dense_layers.push_back(layer);
  }
  config["model_type"] = "qwen2_moe";
  config["intermediate_size"] = shape.dense_hidden;
  config["moe_intermediate_size"] = shape.expert_hidden;
  config["shared_expert_intermediate_size"] = shape.shared_hidden;
  config["num_experts"] = shape.experts;
  config["num_experts_per_tok"] = shape.top_k;
  config["norm_topk_prob"] = normalises_top_k(shape);
  config["decoder_sparse_step"] = shape.moe_every;
  config["mlp_only_layers"] = dense_layers;
  // Always: the class had the biases before it had the setting. They are zeros if the model has
  // none.
  config["qkv_bias"] = true;
  config["use_sliding_window"] = false;
}

void add_mixtral(const ModelShape& shape, Json& config) {
  config["model_type"] = "mixtral";
  config["intermediate_size"] = shape.expert_hidden;
  config["num_local_experts"] = shape.experts;
  config["num_experts_per_tok"] = shape.top_k;
  config["sliding_window"] = nullptr;
}

void add_ernie(const ModelShape& shape, Json& config) {
  config["model_type"] = "ernie4_5_moe";
  config["intermediate_size"] = shape.dense_hidden;
  config["moe_intermediate_size"] = shape.expert_hidden;
  config["moe_num_experts"] = shape.experts;
  config["moe_k"] = shape.top_k;
  config["moe_num_shared_experts"] = shape.shared_hidden / shape.expert_hidden;
  config["moe_layer_start_index"] = shape.dense_first_layers;
  config["moe_layer_end_index"] = shape.layers - 1;
  config["moe_layer_interval"] = shape.moe_every;
  // The class divides the chosen weights by max(their sum, this). They are probabilities, so their
  // sum is at most 1, and with 1 nothing is normalised.
  config["moe_norm_min"] = normalises_top_k(shape) ? 1e-12 : 1.0;
  config["use_bias"] = false;
}

}  // namespace

nlohmann::ordered_json export_config(const ModelShape& shape, ExportFormat format,
                                     ElementType type) {
  Json config = common_config(shape, format, type);
  switch (format) {
    case ExportFormat::kQwen2Moe: add_qwen2(shape, config); break;
    case ExportFormat::kMixtral: add_mixtral(shape, config); break;
    case ExportFormat::kErnie45Moe: add_ernie(shape, config); break;
  }
  return config;
}

}  // namespace evermoe
