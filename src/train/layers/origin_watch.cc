#include "train/layers/origin_watch.h"

#include <memory>
#include <utility>

#include "train/layers/finite_probe.h"

namespace evermoe {

OriginWatch::OriginWatch(const ModelShape& shape, Meet meet) : meet_(std::move(meet)) {
  for (const OperatorSpec& spec : model_operators(shape))
    index_.emplace(spec.name, static_cast<int32_t>(index_.size()));
}

void OriginWatch::meet(NonFinitePhase phase, int32_t micro_batch,
                       const std::string& operator_name) const {
  meet_({phase, micro_batch, index_.at(operator_name)});
}

bool OriginWatch::receive(const at::Tensor& value) {
  if (!value.defined() || is_finite(value)) return true;
  has_received_ = true;
  return false;
}

void OriginWatch::make(const at::Tensor& value, bool is_of_finite, NonFinitePhase phase,
                       int32_t micro_batch, const std::string& operator_name) {
  if (is_of_finite && value.defined() && !is_finite(value)) meet(phase, micro_batch, operator_name);
}

void OriginWatch::watch_experts(const at::Tensor& inputs, const at::Tensor& outputs,
                                const std::vector<ExpertRows>& rows,
                                const std::vector<std::string>& names, int32_t micro_batch) {
  make_rows(inputs, outputs, rows, names, NonFinitePhase::kForward, micro_batch);
  if (!inputs.requires_grad() || !outputs.requires_grad()) return;
  // The gradient of the outputs comes first, and is needed only until that of the inputs is there.
  const auto given = std::make_shared<at::Tensor>();
  outputs.register_hook([given](const at::Tensor& gradient) { *given = gradient; });
  inputs.register_hook([this, given, rows, names, micro_batch](const at::Tensor& gradient) {
    make_rows(std::exchange(*given, at::Tensor()), gradient, rows, names, NonFinitePhase::kBackward,
              micro_batch);
  });
}

void OriginWatch::make_rows(const at::Tensor& from, const at::Tensor& made,
                            const std::vector<ExpertRows>& rows,
                            const std::vector<std::string>& names, NonFinitePhase phase,
                            int32_t micro_batch) {
  if (is_finite(made)) return;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].rows == 0 || is_finite(made.narrow(0, rows[i].begin, rows[i].rows))) continue;
    const bool is_of_finite =
        from.defined() && receive(from.narrow(0, rows[i].begin, rows[i].rows));
    if (is_of_finite) meet(phase, micro_batch, names[i]);
  }
}

void OriginWatch::add_gradient(const at::Tensor& gradient, const std::string& operator_name) {
  if (!has_received_ && !is_finite(gradient))
    meet(NonFinitePhase::kWeightGradient, -1, operator_name);
}

}  // namespace evermoe
