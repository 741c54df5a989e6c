#include "planner/cost/operator_work.h"

namespace evermoe {
namespace {

double matrix_elements(const OperatorSpec& spec) {
  double elements = 0;
  for (const ParameterSpec& parameter : spec.parameters) {
    if (parameter.shape.size() == 2) elements += static_cast<double>(parameter.numel());
  }
  return elements;
}

}  // namespace

OperatorWork operator_work(const OperatorSpec& spec, const CostShape& shape) {
  if (spec.kind == OperatorKind::kEmbedding) return {};
  const double product = 2 * matrix_elements(spec);
  OperatorWork work{product, product, product};
  if (spec.kind == OperatorKind::kBlock) {
    const double attention = shape.attention_work();
    work.forward += attention;
    work.input_gradient += 2 * attention;
  }
  return work;
}

double step_work_per_token(const CostShape& shape) {
  return step_work_per_token(cost_operators(shape), shape);
}

double step_work_per_token(const std::vector<OperatorSpec>& operators, const CostShape& shape) {
  double sum = 0;
  for (const OperatorSpec& spec : operators) {
    const double share = spec.kind == OperatorKind::kExpert
                             ? static_cast<double>(shape.top_k) / static_cast<double>(shape.experts)
                             : 1;
    sum += share * operator_work(spec, shape).total();
  }
  return sum;
}

}  // namespace evermoe
