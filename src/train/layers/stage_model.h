// The layers that one rank holds, and what they do with one micro-batch: forward to the stage's
// output, backward to its input. Knows nothing of the pipeline's order or of other stages.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "config/job_config.h"
#include "experts/placement/expert_placement.h"
#include "model/model_shape.h"
#include "parallel/topology.h"
#include "tensor/torch.h"
#include "train/layers/block.h"
#include "train/layers/finite_probe.h"
#include "train/state/operator_state.h"

namespace evermoe {

// Everything kept of a micro-batch between its forward and its backward on this rank.
struct MicroBatchGraph {
  bool present = true;        // false: this lane only serves its experts in this round
  at::Tensor tokens;          // first stage: [B, T] inputs
  at::Tensor input;           // leaf of the graph, [B * T, hidden]
  at::Tensor output;          // [B * T, hidden], or the mean loss on the last stage
  int64_t hits = 0;           // last stage, without gradients: targets that were the likeliest
  at::Tensor auxiliary_loss;  // sum over this stage's gates, may be undefined
  double scale = 1;           // of the losses in the backward pass
  int64_t gates = 0;          // of this stage, passed by this micro-batch with tokens
  // Of each gate [experts], in the order of layers (GateChoice).
  std::vector<at::Tensor> loads, probabilities;
};

// What a stage group shares: its communicator, in which tokens travel, and those in which the
// owners of operators exchange gradients and weights.
struct StageGroups {
  Communicator* stage = nullptr;
  // Of all operators but experts: the whole stage.
  Communicator* dense_owners = nullptr;
  // The owners of an expert on this lane, by layer and expert; null for experts of other lanes.
  std::map<int64_t, std::vector<Communicator*>> expert_owners;
};

// Every operator of a stage in canonical order, whichever lanes hold it.
std::vector<OperatorSpec> operators_of_stage(const ModelShape& shape, const Topology& topology,
                                             int stage);

// The backward pass adds no more gradients to the operators from number `first` on (in the order of
// StageModel::operators()), but for those that it has put off.
using GradientsAdded = std::function<void(size_t first)>;

class StageModel {
 public:
  // Groups, and the watch, must outlive the model. No `watch`: nobody watches experts. Operators
  // that are among `former` are taken from there, tensors and all; where experts are computed in
  // grouped products, those of a layer are all there or none.
  StageModel(const ModelShape& shape, const Topology& topology, Role role,
             LayerPlacements placements, const StageGroups& groups, StateTypes types,
             Recompute recompute, OriginWatch* watch = nullptr, OperatorStates former = {});

  // Operators of this rank in canonical order.
  std::vector<OperatorState*> operators();
  // The model computes no more.
  OperatorStates take_operators();

  const ModelShape& shape() const { return shape_; }
  // What all forward passes so far had to multiply: rows times weights, of this rank alone.
  double work() const { return work_; }
  // Memory for the activations or gradients of one micro-batch at a stage boundary.
  at::Tensor new_boundary(int64_t batch) const;

  // Rows of a present micro-batch are batch * sequence_length. First stage: `tokens` [B, T],
  // `input` undefined; others: `input` from the stage before. Last stage: `targets` of the last
  // targets.numel() rows, the only ones whose loss counts. An absent micro-batch has batch 0.
  // `place` names its tokens. Gradients are those of `scale` * (loss + auxiliary losses). `probe`
  // looks on; null: nobody
  // does. `added` is called within this micro-batch's backward pass, from behind; null: nobody
  // asks. Communicates (all-to-all), so throws StatusError.
  MicroBatchGraph forward(int64_t batch, const at::Tensor& tokens, const at::Tensor& input,
                          const at::Tensor& targets, double scale, const TokenPlace& place,
                          const FiniteProbe* probe, const GradientsAdded& added = nullptr);

  // Adds weight gradients, as far as forward() has not done so already (head), and returns the
  // gradient of the input (undefined on the first stage). `output_gradient` comes from the stage
  // behind, already scaled; undefined on the last stage. Throws StatusError.
  at::Tensor backward(MicroBatchGraph graph, const at::Tensor& output_gradient);

 private:
  at::Tensor embed(const at::Tensor& tokens) const;
  void embed_backward(const at::Tensor& tokens, const at::Tensor& gradient);
  at::Tensor loss_of(const at::Tensor& x, const at::Tensor& targets, double scale,
                     int64_t* hits) const;

  const ModelShape shape_;
  const StateTypes types_;
  const LayerPlacements placements_;          // of its layers
  std::unique_ptr<OperatorState> embedding_;  // first stage
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<OperatorState> head_;  // last stage
  int64_t dense_weights_ = 0;            // that every token meets
  double work_ = 0;
};

}  // namespace evermoe
