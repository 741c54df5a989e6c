#include "export/export_plan.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "export/export_config.h"

namespace evermoe {
namespace {

// Names in which the classes differ.
struct FormatNames {
  const char* moe;          // of the module that holds gate and experts
  const char* expert_gate;  // an expert's three matrices
  const char* expert_up;
  const char* expert_down;
  const char* shared;  // the shared experts' module
};

FormatNames names_of(ExportFormat format) {
  switch (format) {
    case ExportFormat::kQwen2Moe:
      return {"mlp", "gate_proj", "up_proj", "down_proj", "shared_expert"};
    case ExportFormat::kMixtral: return {"block_sparse_moe", "w1", "w3", "w2", nullptr};
    case ExportFormat::kErnie45Moe:
      return {"mlp", "gate_proj", "up_proj", "down_proj", "shared_experts"};
  }
  return {};
}

// Cuts one operator into tensors.
class OperatorCutter {
 public:
  OperatorCutter(const ModelShape& shape, ExportFormat format, const OperatorSpec& spec)
      : shape_(shape),
        format_(format),
        names_(names_of(format)),
        spec_(spec),
        layer_(absl::StrCat("model.layers.", spec.layer, ".")) {
    result_.name = spec.name;
    result_.flat_size = spec.flat_size;
  }

  ExportOperator cut() {
    switch (spec_.kind) {
      case OperatorKind::kEmbedding: whole("token.weight", "model.embed_tokens.weight"); break;
      case OperatorKind::kHead:
        whole("norm.weight", "model.norm.weight");
        whole("output.weight", "lm_head.weight");
        break;
      case OperatorKind::kBlock: cut_block(); break;
      case OperatorKind::kGate: cut_gate(); break;
      case OperatorKind::kExpert:
        cut_feed_forward("", absl::StrCat(layer_, names_.moe, ".experts.", spec_.expert, "."),
                         names_.expert_gate, names_.expert_up, names_.expert_down);
        break;
    }
    return std::move(result_);
  }

 private:
  const ParameterSpec* find(const std::string& name) const {
    for (const ParameterSpec& parameter : spec_.parameters) {
      if (parameter.name == name) return &parameter;
    }
    return nullptr;
  }
  const ParameterSpec& parameter(const std::string& name) const {
    const ParameterSpec* found = find(name);
    CHECK(found != nullptr) << spec_.name << " has no " << name;
    return *found;
  }

  // Rows [begin, begin + count) of a parameter.
  ExportTensor& rows(const std::string& from, int64_t begin, int64_t count, std::string to) {
    const ParameterSpec& source = parameter(from);
    const int64_t row = source.numel() / source.shape[0];
    ExportTensor tensor;
    tensor.name = std::move(to);
    tensor.shape = source.shape;
    tensor.shape[0] = count;
    tensor.source = {source.offset + begin * row, source.offset + (begin + count) * row};
    result_.tensors.push_back(std::move(tensor));
    return result_.tensors.back();
  }
  void whole(const std::string& from, std::string to) {
    rows(from, 0, parameter(from).shape[0], std::move(to));
  }
  void zeros(std::string to, std::vector<int64_t> shape) {
    result_.tensors.push_back({std::move(to), std::move(shape), {}, 0});
  }

  // `prefix` as in the operator: "ffn.", "shared." or empty.
  void cut_feed_forward(const std::string& prefix, const std::string& to, const char* gate,
                        const char* up, const char* down) {
    const std::string fused = absl::StrCat(prefix, "up.weight");
    const int64_t width = parameter(fused).shape[0] / 2;
    rows(fused, 0, width, absl::StrCat(to, gate, ".weight"));
    rows(fused, width, width, absl::StrCat(to, up, ".weight"));
    whole(absl::StrCat(prefix, "down.weight"), absl::StrCat(to, down, ".weight"));
  }

  void cut_block() {
    whole("norm1.weight", absl::StrCat(layer_, "input_layernorm.weight"));
    whole("norm2.weight", absl::StrCat(layer_, "post_attention_layernorm.weight"));
    cut_attention();
    if (!shape_.is_moe_layer(spec_.layer)) {
      cut_feed_forward("ffn.", absl::StrCat(layer_, "mlp."), "gate_proj", "up_proj", "down_proj");
      return;
    }
    const std::string moe = absl::StrCat(layer_, names_.moe, ".");
    if (shape_.shared_hidden > 0) {
      cut_feed_forward("shared.", absl::StrCat(moe, names_.shared, "."), "gate_proj", "up_proj",
                       "down_proj");
      if (shape_.shared_gate) {
        whole("shared_gate.weight", absl::StrCat(moe, names_.shared, "_gate.weight"));
      }
    }
  }

  void cut_attention() {
    const std::string to = absl::StrCat(layer_, "self_attn.");
    const int64_t q = shape_.heads * shape_.head_dim;
    const int64_t kv = shape_.kv_heads * shape_.head_dim;
    const int64_t interleaved = format_ == ExportFormat::kErnie45Moe ? shape_.head_dim : 0;
    const auto cut = [&](const char* name, int64_t begin, int64_t count, bool rotated) {
      ExportTensor& weight =
          rows("attention.qkv.weight", begin, count, absl::StrCat(to, name, "_proj.weight"));
      if (rotated) weight.interleaved_head_dim = interleaved;
      if (format_ != ExportFormat::kQwen2Moe) return;
      const std::string bias = absl::StrCat(to, name, "_proj.bias");
      if (shape_.qkv_bias)
        rows("attention.qkv.bias", begin, count, bias);
      else
        zeros(bias, {count});
    };
    cut("q", 0, q, true);
    cut("k", q, kv, true);
    cut("v", q + kv, kv, false);
    whole("attention.out.weight", absl::StrCat(to, "o_proj.weight"));
  }

  void cut_gate() {
    const std::string moe = absl::StrCat(layer_, names_.moe, ".");
    whole("weight", absl::StrCat(moe, "gate.weight"));
    // Added to the probabilities before the largest are chosen; our gate has no such correction.
    if (format_ == ExportFormat::kErnie45Moe) {
      zeros(absl::StrCat(moe, "moe_statics.e_score_correction_bias"), {1, shape_.experts});
    }
  }

  const ModelShape& shape_;
  const ExportFormat format_;
  const FormatNames names_;
  const OperatorSpec& spec_;
  const std::string layer_;
  ExportOperator result_;
};

}  // namespace

int64_t ExportTensor::numel() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

absl::StatusOr<ExportPlan> plan_export(const ModelShape& shape, ExportFormat format,
                                       ElementType type) {
  CHECK(type == ElementType::kFp32 || type == ElementType::kBf16) << to_string(type);
  RETURN_IF_ERROR(check_format(shape, format));
  ExportPlan plan{format, type, {}, export_config(shape, format, type)};
  for (const OperatorSpec& spec : model_operators(shape)) {
    plan.operators.push_back(OperatorCutter(shape, format, spec).cut());
  }
  return plan;
}

}  // namespace evermoe
