#include "train/layers/finite_probe.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "absl/strings/str_cat.h"
#include "tensor/host_bytes.h"

namespace evermoe {

bool is_finite(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return true;
  // Both are NaN if any element is.
  const auto [smallest, largest] = at::aminmax(tensor.detach());
  return std::isfinite(smallest.item<double>()) && std::isfinite(largest.item<double>());
}

NonFiniteLog::NonFiniteLog(const ModelShape& shape) {
  for (const OperatorSpec& spec : model_operators(shape)) {
    index_.emplace(spec.name, static_cast<int32_t>(index_.size()));
  }
}

void NonFiniteLog::add(NonFinitePhase phase, int32_t micro_batch,
                       const std::string& operator_name) {
  first_ = std::min(first_, to_key({phase, micro_batch, index_.at(operator_name)}));
}

void FiniteProbe::watch(const at::Tensor& value, const std::string& operator_name) const {
  if (!is_finite(value)) log_->add(NonFinitePhase::kForward, micro_batch_, operator_name);
  if (!value.requires_grad()) return;
  value.register_hook(
      [log = log_, micro_batch = micro_batch_, operator_name](const at::Tensor& gradient) {
        if (!is_finite(gradient)) log->add(NonFinitePhase::kBackward, micro_batch, operator_name);
      });
}

void FiniteProbe::watch_experts(const at::Tensor& outputs, const at::Tensor& experts,
                                int layer) const {
  if (is_finite(outputs)) return;
  const at::Tensor finite = at::isfinite(outputs.detach()).all(-1).flatten().cpu();
  const at::Tensor chosen = experts.cpu();
  const std::span<const bool> is_good = host_values<bool>(finite);
  const std::span<const int64_t> expert = host_values<int64_t>(chosen);
  for (size_t choice = 0; choice < expert.size(); ++choice) {
    if (is_good[choice]) continue;
    log_->add(NonFinitePhase::kForward, micro_batch_,
              absl::StrCat("layer.", layer, ".expert.", expert[choice]));
  }
}

}  // namespace evermoe
