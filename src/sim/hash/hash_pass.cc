#include "sim/hash/hash_pass.h"

#include <span>

#include "base/error.h"
#include "sim/hash/hash_mix.h"

namespace evermoe {
namespace {

using Part = HashModel::Part;

// A word on its way to an expert has the expert's number in its low bits; zero: no token.
constexpr uint64_t kExpertBits = 0xffff;

}  // namespace

HashPass::HashPass(const Topology& topology, Role role, const HashModelOptions& options,
                   HashModel& model, HashBoundary& neighbours, Communicator& stage_group)
    : role_(role),
      lanes_(topology.lanes(role.stage)),
      layers_(options.layers_per_stage),
      experts_(options.experts),
      is_last_(role.stage + 1 == topology.stages()),
      model_(model),
      neighbours_(neighbours),
      stage_group_(stage_group) {}

absl::StatusOr<HashPass::Graph> HashPass::forward(uint64_t sample, std::optional<int> micro_batch,
                                                  Boundary& boundary) {
  Graph graph;
  graph.is_real = micro_batch.has_value();
  uint64_t value = 0;
  if (graph.is_real && role_.stage == 0) {
    value = sample;
  } else if (graph.is_real) {
    ASSIGN_OR_RETURN(value,
                     neighbours_.receive(BoundaryDirection::kActivation, *micro_batch, boundary));
  }
  for (int layer = 0; layer < layers_; ++layer) {
    ASSIGN_OR_RETURN(value, forward_layer(layer, value, graph));
  }
  graph.output = value;
  if (graph.is_real && !is_last_) {
    RETURN_IF_ERROR(
        neighbours_.send(BoundaryDirection::kActivation, *micro_batch, value, boundary));
  }
  return graph;
}

absl::StatusOr<uint64_t> HashPass::forward_layer(int layer, uint64_t value, Graph& graph) {
  graph.layer_inputs.push_back(value);
  value = mix(value, model_.weights(model_.index_of(Part::kBlock, layer)));
  const uint64_t gate = mix(value, model_.weights(model_.index_of(Part::kGate, layer)));
  const int choice = static_cast<int>(gate % static_cast<uint64_t>(experts_));
  graph.gate_choices.push_back(choice);
  const auto run = [&](int expert, uint64_t token) {
    return mix(token, model_.weights(model_.index_of(Part::kExpert, layer, expert)),
               model_.position().placement);
  };
  ASSIGN_OR_RETURN(const uint64_t answer, ask_expert(layer, choice, value, graph.is_real, run));
  return mix(value, gate, answer);
}

absl::Status HashPass::backward(const Graph& graph, std::optional<int> micro_batch,
                                const ActiveOperators& active, Boundary& boundary) {
  uint64_t gradient = 0;
  if (graph.is_real && !is_last_) {
    ASSIGN_OR_RETURN(gradient,
                     neighbours_.receive(BoundaryDirection::kGradient, *micro_batch, boundary));
  } else if (graph.is_real) {
    gradient = mix(graph.output, 0x1055);
  }
  for (int layer = layers_ - 1; layer >= 0; --layer) {
    ASSIGN_OR_RETURN(gradient, backward_layer(layer, gradient, graph, active));
  }
  if (!graph.is_real || role_.stage == 0) return absl::OkStatus();
  return neighbours_.send(BoundaryDirection::kGradient, *micro_batch, gradient, boundary);
}

absl::StatusOr<uint64_t> HashPass::backward_layer(int layer, uint64_t gradient, const Graph& graph,
                                                  const ActiveOperators& active) {
  const auto accumulate = [&](int index, uint64_t value) {
    if (active[static_cast<size_t>(index)]) model_.accumulate(index, value);
  };
  const int choice = graph.gate_choices[static_cast<size_t>(layer)];
  const auto run = [&](int expert, uint64_t of_token) {
    const int index = model_.index_of(Part::kExpert, layer, expert);
    accumulate(index, mix(of_token, 0xe8));
    return mix(of_token, model_.weights(index));
  };
  ASSIGN_OR_RETURN(const uint64_t answer, ask_expert(layer, choice, gradient, graph.is_real, run));
  if (!graph.is_real) return gradient;
  const int block = model_.index_of(Part::kBlock, layer);
  const int gate = model_.index_of(Part::kGate, layer);
  const uint64_t input = graph.layer_inputs[static_cast<size_t>(layer)];
  accumulate(gate, mix(gradient, input, static_cast<uint64_t>(choice)));
  accumulate(block, mix(gradient, input));
  return mix(gradient, answer, model_.weights(gate), model_.weights(block));
}

absl::StatusOr<uint64_t> HashPass::ask_expert(int layer, int choice, uint64_t value, bool is_real,
                                              const Expert& run) {
  const auto lane = static_cast<size_t>(model_.lane_of(layer, choice));
  std::vector<uint64_t> to_experts(static_cast<size_t>(lanes_));
  if (is_real)
    to_experts[lane] = (value | kExpertBits) - kExpertBits + static_cast<uint64_t>(choice) + 1;
  ASSIGN_OR_RETURN(const std::vector<uint64_t> tokens, exchange(to_experts));
  std::vector<uint64_t> results;
  for (const uint64_t token : tokens)
    results.push_back(token == 0 ? 0 : run(static_cast<int>(token & kExpertBits) - 1, token));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> back, exchange(results));
  return back[lane];
}

absl::StatusOr<std::vector<uint64_t>> HashPass::exchange(const std::vector<uint64_t>& words) {
  std::vector<uint64_t> received(words.size());
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  for (size_t lane = 0; lane < words.size(); ++lane) {
    sends.push_back(std::as_bytes(std::span(&words[lane], 1)));
    receives.push_back(std::as_writable_bytes(std::span(&received[lane], 1)));
  }
  RETURN_IF_ERROR(stage_group_.all_to_all(sends, receives));
  return received;
}

}  // namespace evermoe
