#include "train/layers/stage_model.h"

#include <algorithm>
#include <iterator>

#include "tensor/compute_device.h"
#include "train/layers/head_loss.h"
#include "train/layers/layers.h"

namespace evermoe {
namespace {

bool on_stage(const OperatorSpec& spec, const Topology& topology, int stage) {
  switch (spec.kind) {
    case OperatorKind::kEmbedding: return topology.holds_embedding(stage);
    case OperatorKind::kHead: return topology.holds_head(stage);
    default:
      return spec.layer >= topology.first_layer(stage) &&
             spec.layer < topology.first_layer(stage + 1);
  }
}

// Null: it is not there.
std::unique_ptr<OperatorState> take(OperatorStates& states, const std::string& name) {
  OperatorStates::node_type found = states.extract(name);
  return found ? std::move(found.mapped()) : nullptr;
}

}  // namespace

std::vector<OperatorSpec> operators_of_stage(const ModelShape& shape, const Topology& topology,
                                             int stage) {
  std::vector<OperatorSpec> specs = model_operators(shape);
  std::erase_if(specs, [&](const OperatorSpec& spec) { return !on_stage(spec, topology, stage); });
  return specs;
}

StageModel::StageModel(const ModelShape& shape, const Topology& topology, Role role,
                       LayerPlacements placements, const StageGroups& groups, StateTypes types,
                       Recompute recompute, OriginWatch* watch, OperatorStates former)
    : shape_(shape), types_(types), placements_(std::move(placements)) {
  LayerOperators layer;
  const auto finish_layer = [&] {
    if (layer.block == nullptr) return;
    const auto placement = placements_.find(layer.block->spec().layer);
    blocks_.push_back(std::make_unique<Block>(
        std::move(layer), shape_, placement == placements_.end() ? nullptr : &placement->second,
        *groups.stage, types, recompute, watch));
    layer = LayerOperators();
  };
  OperatorStorage of_experts;  // of the layer
  for (OperatorSpec& spec : operators_of_stage(shape, topology, role.stage)) {
    const bool expert = spec.kind == OperatorKind::kExpert;
    Communicator* const owners =
        expert ? groups.expert_owners.at(spec.layer)[static_cast<size_t>(spec.expert)]
               : groups.dense_owners;
    if (owners == nullptr) continue;
    const OperatorKind kind = spec.kind;
    if (!expert && kind != OperatorKind::kGate) finish_layer();
    if (!expert && kind != OperatorKind::kEmbedding) dense_weights_ += spec.flat_size;
    std::unique_ptr<OperatorState> state = take(former, spec.name);
    if (state != nullptr) state->set_owners(*owners);
    OperatorStorage storage;
    if (state == nullptr && expert && types.groups_experts()) {
      // Beside the one before, for products of all experts at once (experts.h).
      if (layer.experts.empty()) {
        const auto hosted = std::ranges::count_if(groups.expert_owners.at(spec.layer),
                                                  [](const auto* one) { return one != nullptr; });
        const int64_t elements = hosted * spec.flat_size;
        of_experts = {new_storage(types.stored.compute, elements, types.device),
                      new_storage(types.stored.sums, elements, types.device)};
      }
      const int64_t begin = std::ssize(layer.experts) * spec.flat_size;
      storage = {of_experts.compute.narrow(0, begin, spec.flat_size),
                 of_experts.gradient.narrow(0, begin, spec.flat_size)};
    }
    if (state == nullptr)
      state = std::make_unique<OperatorState>(std::move(spec), *owners, types, storage);
    switch (kind) {
      case OperatorKind::kEmbedding: embedding_ = std::move(state); break;
      case OperatorKind::kHead: head_ = std::move(state); break;
      case OperatorKind::kBlock: layer.block = std::move(state); break;
      case OperatorKind::kGate: layer.gate = std::move(state); break;
      case OperatorKind::kExpert: layer.experts.push_back(std::move(state)); break;
    }
  }
  finish_layer();
}

std::vector<OperatorState*> StageModel::operators() {
  std::vector<OperatorState*> all;
  if (embedding_ != nullptr) all.push_back(embedding_.get());
  for (const auto& block : blocks_) {
    for (OperatorState* state : block->operators()) all.push_back(state);
  }
  if (head_ != nullptr) all.push_back(head_.get());
  return all;
}

OperatorStates StageModel::take_operators() {
  OperatorStates all;
  const auto add = [&](std::unique_ptr<OperatorState> state) {
    if (state != nullptr) all.emplace(state->spec().name, std::move(state));
  };
  add(std::move(embedding_));
  for (const auto& block : blocks_) {
    LayerOperators layer = block->take_operators();
    add(std::move(layer.block));
    add(std::move(layer.gate));
    for (auto& expert : layer.experts) add(std::move(expert));
  }
  blocks_.clear();
  add(std::move(head_));
  return all;
}

at::Tensor StageModel::new_boundary(int64_t batch) const {
  return at::empty({batch * shape_.sequence_length, shape_.hidden},
                   at::TensorOptions().dtype(types_.activations()).device(types_.device));
}

at::Tensor StageModel::embed(const at::Tensor& tokens) const {
  at::Tensor x = embedding_->parameter("token.weight").value.index_select(0, tokens.flatten());
  if (shape_.position == PositionKind::kLearned) {
    x = (x.view({tokens.size(0), tokens.size(1), shape_.hidden}) +
         embedding_->parameter("position.weight").value)
            .view({-1, shape_.hidden});
  }
  return x;
}

void StageModel::embed_backward(const at::Tensor& tokens, const at::Tensor& gradient) {
  if (embedding_->is_frozen()) return;
  const Parameter& token = embedding_->parameter("token.weight");
  const at::Tensor wide = gradient.to(token.gradient.scalar_type());
  at::Tensor accumulator = token.gradient;
  accumulator.index_add_(0, tokens.flatten(), wide);
  if (shape_.position == PositionKind::kLearned) {
    at::Tensor positions = embedding_->parameter("position.weight").gradient;
    positions.add_(wide.view({tokens.size(0), tokens.size(1), shape_.hidden}).sum(0));
  }
}

at::Tensor StageModel::loss_of(const at::Tensor& x, const at::Tensor& targets, double scale,
                               int64_t* hits) const {
  const at::Tensor normal = shape_.norm == NormKind::kRmsNorm
                                ? rms_norm(x, head_->parameter("norm.weight"), shape_.norm_epsilon)
                                : layer_norm(x, head_->parameter("norm.weight"),
                                             head_->parameter("norm.bias"), shape_.norm_epsilon);
  return head_loss(normal, head_->parameter("output.weight"), targets.flatten(), types_.sums(),
                   scale, hits);
}

MicroBatchGraph StageModel::forward(int64_t batch, const at::Tensor& tokens,
                                    const at::Tensor& input, const at::Tensor& targets,
                                    double scale, const TokenPlace& place, const FiniteProbe* probe,
                                    const GradientsAdded& added) {
  MicroBatchGraph graph;
  graph.scale = scale;
  graph.present = batch > 0;
  const auto options = at::TensorOptions().dtype(types_.activations()).device(types_.device);
  if (!graph.present) {
    graph.input = at::empty({0, shape_.hidden}, options);
  } else if (embedding_ != nullptr) {
    const at::NoGradGuard no_grad;
    graph.tokens = tokens;
    graph.input = embed(tokens);
  } else {
    graph.input = input;
  }
  // On every rank, whether or not anything in front of it needs the gradient: otherwise this rank's
  // all-to-all would have no backward and its peers would wait for ever.
  graph.input.requires_grad_(true);
  if (probe != nullptr && embedding_ != nullptr && graph.present)
    probe->watch(graph.input, embedding_->spec().name);
  at::Tensor x = graph.input;
  // Who has the gradient of an operator's input has passed the operator.
  const auto tell_when_passed = [&](size_t first) {
    if (added && x.requires_grad()) {
      x.register_hook([added, first](const at::Tensor& /*gradient*/) { added(first); });
    }
  };
  work_ += static_cast<double>(batch * shape_.sequence_length * dense_weights_);
  size_t operators = embedding_ != nullptr ? 1 : 0;
  for (const auto& block : blocks_) {
    tell_when_passed(operators);
    operators += block->operators().size();
    BlockResult result = block->forward(x, batch, place, probe);
    x = result.output;
    work_ += static_cast<double>(result.expert_rows * block->expert_weights());
    if (result.load.defined()) {
      graph.loads.push_back(result.load);
      graph.probabilities.push_back(result.probability);
    }
    if (!result.auxiliary_loss.defined()) continue;
    ++graph.gates;
    graph.auxiliary_loss = graph.auxiliary_loss.defined()
                               ? graph.auxiliary_loss + result.auxiliary_loss
                               : result.auxiliary_loss;
  }
  graph.output = x;
  if (head_ != nullptr) tell_when_passed(operators);
  if (head_ != nullptr && graph.present) {
    // The last rows, if not all count.
    const int64_t counted = targets.numel();
    graph.output = loss_of(counted == x.size(0) ? x : x.narrow(0, x.size(0) - counted, counted),
                           targets, scale, at::GradMode::is_enabled() ? nullptr : &graph.hits);
  }
  return graph;
}

at::Tensor StageModel::backward(MicroBatchGraph graph, const at::Tensor& output_gradient) {
  torch::autograd::variable_list roots = {graph.output};
  torch::autograd::variable_list gradients;
  if (!graph.present) {
    gradients.push_back(at::zeros_like(graph.output));
  } else if (head_ != nullptr) {
    gradients.push_back(at::full_like(graph.output, graph.scale));
  } else {
    gradients.push_back(output_gradient);
  }
  if (graph.auxiliary_loss.defined()) {
    roots.push_back(graph.auxiliary_loss);
    gradients.push_back(at::full_like(graph.auxiliary_loss, graph.scale));
  }
  const at::Tensor input = graph.input;
  const at::Tensor tokens = graph.tokens;
  graph = MicroBatchGraph();                  // the roots alone keep the graph alive from here
  const BackwardOnThisThread on_this_thread;  // backward functions talk to other ranks
  torch::autograd::backward(roots, gradients);
  at::Tensor input_gradient = input.grad();
  if (embedding_ == nullptr) return input_gradient;
  if (tokens.defined()) embed_backward(tokens, input_gradient);
  return {};
}

}  // namespace evermoe
