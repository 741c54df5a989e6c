#include "train/layers/block.h"

#include <optional>

#include "tensor/gradient_node.h"
#include "train/dispatch/token_dispatch.h"
#include "train/layers/layers.h"

namespace evermoe {

Block::Block(LayerOperators operators, const ModelShape& shape, const ExpertPlacement* placement,
             Communicator& stage_group, StateTypes types, Recompute recompute, OriginWatch* watch)
    : operators_(std::move(operators)),
      shape_(shape),
      placement_(placement),
      group_(stage_group),
      recompute_(recompute),
      watch_(watch),
      attention_(*operators_.block, shape, types) {
  for (const auto& expert : operators_.experts) {
    experts_.emplace_back(*expert, "", shape.activation);
    expert_names_.push_back(expert->spec().name);
  }
  if (types.groups_experts()) stack_ = stack_experts(experts_);
  if (operators_.gate == nullptr) {
    always_ = std::make_unique<FeedForward>(*operators_.block, "ffn.", shape.activation);
  } else if (shape.shared_hidden > 0) {
    always_ = std::make_unique<FeedForward>(*operators_.block, "shared.", shape.activation);
  }
}

std::vector<OperatorState*> Block::operators() {
  std::vector<OperatorState*> all = {operators_.block.get()};
  if (operators_.gate != nullptr) all.push_back(operators_.gate.get());
  for (const auto& expert : operators_.experts) all.push_back(expert.get());
  return all;
}

LayerOperators Block::take_operators() {
  stack_ = {};  // which sees weights
  return std::move(operators_);
}

at::Tensor Block::norm(const at::Tensor& x, const std::string& name) const {
  const OperatorState& block = *operators_.block;
  if (shape_.norm == NormKind::kRmsNorm) {
    return rms_norm(x, block.parameter(name + ".weight"), shape_.norm_epsilon);
  }
  return layer_norm(x, block.parameter(name + ".weight"), block.parameter(name + ".bias"),
                    shape_.norm_epsilon);
}

at::Tensor Block::shared_experts(const at::Tensor& x, const at::Tensor& gate_input) const {
  const at::Tensor output = always_->forward(x);
  if (!shape_.shared_gate) return output;
  return output * at::sigmoid(linear(gate_input, operators_.block->parameter("shared_gate.weight"),
                                     nullptr));
}

// The shared experts compute while the tokens are on their way to the routed ones.
Block::FeedForwardOutputs Block::feed_forward(const at::Tensor& x, bool has_tokens,
                                              const TokenPlace& place, const FiniteProbe* probe,
                                              BlockResult& result) const {
  if (operators_.gate == nullptr) return {always_->forward(x), {}};
  enum Reader { kRouted, kGate, kSharedGate, kShared, kReaders };
  const std::vector<at::Tensor> inputs = fan_out(x, kReaders);
  const GateChoice choice = choose_experts(inputs[kGate], operators_.gate->parameter("weight"),
                                           shape_, operators_.gate->spec().layer, place);
  // Grouped products need no row counts on the host.
  const bool plans_on_device = stack_.is_defined() && group_.size() == 1;
  const auto dispatch = TokenDispatch::start(
      group_, *placement_, choice.experts, choice.load, x,
      plans_on_device ? TokenDispatch::Planner::kDevice : TokenDispatch::Planner::kHost);
  const at::Tensor under_way = dispatch->send_tokens(inputs[kRouted]);
  FeedForwardOutputs outputs;
  if (has_tokens && always_ != nullptr)
    outputs.always = shared_experts(inputs[kShared], inputs[kSharedGate]);
  const at::Tensor layout = dispatch->receive_tokens(under_way);
  result.expert_rows = layout.size(0);
  const at::Tensor by_experts =
      run_experts(layout, experts_, dispatch->layout(), recompute_ == Recompute::kExperts, stack_);
  if (watch_ != nullptr && group_.size() > 1)
    watch_->watch_experts(layout, by_experts, dispatch->layout()->rows(), expert_names_,
                          /*micro_batch=*/-1);
  const TokenDispatch::Mixed mixed = dispatch->to_tokens(by_experts, choice.weights);
  outputs.mixed = mixed.tokens;
  if (probe != nullptr) watch_choice(choice, mixed.choices(), *probe);
  result.auxiliary_loss = choice.auxiliary_loss;
  result.load = choice.load;
  result.probability = choice.probability;
  return outputs;
}

void Block::watch_choice(const GateChoice& choice, const at::Tensor& outputs,
                         const FiniteProbe& probe) const {
  probe.watch(choice.weights, operators_.gate->spec().name);
  probe.watch_experts(outputs, choice.experts, operators_.gate->spec().layer);
}

BlockResult Block::forward(const at::Tensor& x, int64_t batch, const TokenPlace& place,
                           const FiniteProbe* probe) const {
  const bool does_nothing = batch == 0 && operators_.gate == nullptr;
  const bool twice = recompute_ == Recompute::kLayer && at::GradMode::is_enabled() && !does_nothing;
  return twice ? compute_twice(x, batch, place, probe) : compute(x, batch, place, probe);
}

BlockResult Block::compute_twice(const at::Tensor& x, int64_t batch, const TokenPlace& place,
                                 const FiniteProbe* probe) const {
  const at::Tensor input = x.detach();
  BlockResult result;
  {
    const at::NoGradGuard no_grad;
    result = compute(input, batch, place, probe);
  }
  std::vector<at::Tensor> outputs = {result.output};
  if (result.auxiliary_loss.defined()) outputs.push_back(result.auxiliary_loss);
  const auto probe_again = probe != nullptr ? std::optional(*probe) : std::nullopt;
  outputs =
      with_gradients(std::move(outputs), {x}, [=, this](const std::vector<at::Tensor>& gradients) {
        const at::Tensor leaf = input.detach().requires_grad_(true);
        torch::autograd::variable_list roots;
        {
          const at::AutoGradMode with_graph(true);
          const BlockResult again =
              compute(leaf, batch, place, probe_again ? &*probe_again : nullptr);
          roots = {again.output};
          if (gradients.size() > 1) roots.push_back(again.auxiliary_loss);
        }
        torch::autograd::backward(roots, gradients);
        return std::vector<at::Tensor>{leaf.grad()};
      });
  result.output = outputs[0];
  if (outputs.size() > 1) result.auxiliary_loss = outputs[1];
  return result;
}

BlockResult Block::compute(const at::Tensor& x, int64_t batch, const TokenPlace& place,
                           const FiniteProbe* probe) const {
  BlockResult result;
  if (batch == 0) {
    result.output = x;
    if (operators_.gate != nullptr)
      result.output = x + feed_forward(x, /*has_tokens=*/false, place, probe, result).mixed;
    return result;
  }
  const at::Tensor attended = x + attention_.forward(norm(x, "norm1"), batch);
  if (probe != nullptr) probe->watch(attended, operators_.block->spec().name);
  const FeedForwardOutputs outputs =
      feed_forward(norm(attended, "norm2"), /*has_tokens=*/true, place, probe, result);
  if (probe != nullptr && outputs.always.defined())
    probe->watch(outputs.always, operators_.block->spec().name);
  result.output = outputs.always.defined() ? attended + outputs.always : attended;
  if (outputs.mixed.defined()) result.output = result.output + outputs.mixed;
  return result;
}

}  // namespace evermoe
