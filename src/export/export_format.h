// The classes of Hugging Face transformers that a model can be exported as.
//
// A format fits a model if the class computes the same function, up to the rounding of sums: what a
// class has and the model has not must be expressible by a setting or by zeros.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/model_shape.h"

namespace evermoe {

enum class ExportFormat {
  kQwen2Moe,    // Qwen2MoeForCausalLM: shared expert scaled by a gate, dense layers
  kMixtral,     // MixtralForCausalLM: every layer MoE, none shared, weights normalised
  kErnie45Moe,  // Ernie4_5_MoeForCausalLM: shared experts without a gate, dense layers
                // (DeepSeek-MoE)
};
inline constexpr ExportFormat kExportFormats[] = {ExportFormat::kQwen2Moe, ExportFormat::kMixtral,
                                                  ExportFormat::kErnie45Moe};

const char* to_string(ExportFormat format);          // "qwen2-moe"
const char* architecture_name(ExportFormat format);  // "Qwen2MoeForCausalLM"
std::optional<ExportFormat> export_format_from_string(const std::string& text);

// What of the model the class cannot express, as "model.key = value" with what it could; empty if
// the format fits.
std::vector<std::string> misfits(const ModelShape& shape, ExportFormat format);

// The first format that fits. InvalidInput says for each class what does not fit.
absl::StatusOr<ExportFormat> choose_format(const ModelShape& shape);

// Ok if the format fits, else InvalidInput that names everything that does not.
absl::Status check_format(const ModelShape& shape, ExportFormat format);

// The weights of the chosen experts sum to one. Softmax over the chosen logits is softmax over all
// of them and then division by the sum, so both scorings can be exported alike.
bool normalises_top_k(const ModelShape& shape);

}  // namespace evermoe
