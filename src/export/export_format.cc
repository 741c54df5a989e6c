#include "export/export_format.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"

namespace evermoe {
namespace {

using Misfits = std::vector<std::string>;

// What no mixture-of-experts class of transformers has together with the rest of our model.
Misfits common_misfits(const ModelShape& shape) {
  Misfits found;
  if (shape.norm != NormKind::kRmsNorm) found.push_back("model.norm = layernorm (only rmsnorm)");
  if (shape.activation != ActivationKind::kSwiGlu) {
    found.push_back("model.activation = gelu (only swiglu)");
  }
  if (shape.position != PositionKind::kRotary) {
    found.push_back("model.position = learned (only rotary)");
  }
  if (shape.linear_bias) found.push_back("model.linear_bias = true (only false)");
  if (shape.routed_scale != 1) {
    found.push_back(absl::StrCat("model.routed_scale = ", shape.routed_scale, " (only 1)"));
  }
  if (shape.head_dim % 2 != 0) {
    found.push_back(absl::StrCat("model.head_dim = ", shape.head_dim, " (only even ones)"));
  }
  return found;
}

std::string shared_misfit(const ModelShape& shape, const char* allowed) {
  return absl::StrCat("model.shared_hidden = ", shape.shared_hidden, " (only ", allowed, ")");
}

void add_qwen2_misfits(const ModelShape& shape, Misfits& found) {
  if (shape.shared_hidden == 0) {
    found.push_back(shared_misfit(shape, "a shared expert"));
  } else if (!shape.shared_gate) {
    found.push_back("model.shared_gate = false (only true)");
  }
}

void add_mixtral_misfits(const ModelShape& shape, Misfits& found) {
  if (shape.shared_hidden != 0) found.push_back(shared_misfit(shape, "0"));
  if (shape.qkv_bias) found.push_back("model.qkv_bias = true (only false)");
  if (!normalises_top_k(shape)) found.push_back("model.normalise_top_k = false (only true)");
  if (shape.moe_every != 1) {
    found.push_back(absl::StrCat("model.moe_every = ", shape.moe_every, " (only 1)"));
  }
  if (shape.dense_first_layers != 0) {
    found.push_back(
        absl::StrCat("model.dense_first_layers = ", shape.dense_first_layers, " (only 0)"));
  }
}

void add_ernie_misfits(const ModelShape& shape, Misfits& found) {
  if (shape.shared_hidden % shape.expert_hidden != 0) {
    found.push_back(shared_misfit(
        shape, absl::StrCat("multiples of model.expert_hidden, ", shape.expert_hidden).c_str()));
  }
  if (shape.shared_hidden != 0 && shape.shared_gate) {
    found.push_back("model.shared_gate = true (only false)");
  }
  if (shape.qkv_bias) found.push_back("model.qkv_bias = true (only false)");
}

}  // namespace

const char* to_string(ExportFormat format) {
  switch (format) {
    case ExportFormat::kQwen2Moe: return "qwen2-moe";
    case ExportFormat::kMixtral: return "mixtral";
    case ExportFormat::kErnie45Moe: return "ernie4.5-moe";
  }
  return "unknown";
}

const char* architecture_name(ExportFormat format) {
  switch (format) {
    case ExportFormat::kQwen2Moe: return "Qwen2MoeForCausalLM";
    case ExportFormat::kMixtral: return "MixtralForCausalLM";
    case ExportFormat::kErnie45Moe: return "Ernie4_5_MoeForCausalLM";
  }
  return "unknown";
}

std::optional<ExportFormat> export_format_from_string(const std::string& text) {
  for (const ExportFormat format : kExportFormats) {
    if (text == to_string(format)) return format;
  }
  return std::nullopt;
}

bool normalises_top_k(const ModelShape& shape) {
  return shape.scoring == ScoringKind::kTopKThenSoftmax || shape.normalise_top_k;
}

std::vector<std::string> misfits(const ModelShape& shape, ExportFormat format) {
  Misfits found = common_misfits(shape);
  switch (format) {
    case ExportFormat::kQwen2Moe: add_qwen2_misfits(shape, found); break;
    case ExportFormat::kMixtral: add_mixtral_misfits(shape, found); break;
    case ExportFormat::kErnie45Moe: add_ernie_misfits(shape, found); break;
  }
  return found;
}

absl::StatusOr<ExportFormat> choose_format(const ModelShape& shape) {
  const Misfits common = common_misfits(shape);
  if (!common.empty()) {
    return InvalidInput(absl::StrCat("no class of transformers computes this model: it has ",
                                     absl::StrJoin(common, ", ")));
  }
  Misfits reasons;
  for (const ExportFormat format : kExportFormats) {
    const Misfits found = misfits(shape, format);
    if (found.empty()) return format;
    reasons.push_back(absl::StrCat("not ", architecture_name(format), " because of ",
                                   absl::StrJoin(found, ", ")));
  }
  return InvalidInput(
      absl::StrCat("no class of transformers computes this model: ", absl::StrJoin(reasons, "; ")));
}

absl::Status check_format(const ModelShape& shape, ExportFormat format) {
  const Misfits found = misfits(shape, format);
  if (found.empty()) return absl::OkStatus();
  return InvalidInput(absl::StrCat(architecture_name(format),
                                   " does not compute this model: it has ",
                                   absl::StrJoin(found, ", ")));
}

}  // namespace evermoe
