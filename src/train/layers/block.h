// One transformer layer: attention and a feed-forward part that is dense or a mixture of experts.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "config/job_config.h"
#include "experts/placement/expert_placement.h"
#include "model/model_shape.h"
#include "tensor/torch.h"
#include "train/layers/attention.h"
#include "train/layers/experts.h"
#include "train/layers/finite_probe.h"
#include "train/layers/gate.h"
#include "train/layers/origin_watch.h"
#include "train/state/operator_state.h"

namespace evermoe {

// The operators of one layer on this rank.
struct LayerOperators {
  std::unique_ptr<OperatorState> block;
  std::unique_ptr<OperatorState> gate;                  // MoE layers
  std::vector<std::unique_ptr<OperatorState>> experts;  // hosted ones, ascending
};

struct BlockResult {
  at::Tensor output;
  at::Tensor auxiliary_loss;     // undefined in dense layers and for zero rows
  at::Tensor load, probability;  // GateChoice; undefined in dense layers
  int64_t expert_rows = 0;       // that the experts hosted here computed, of all lanes' tokens
};

class Block {
 public:
  // `placement`: of the experts; null in dense layers.
  Block(LayerOperators operators, const ModelShape& shape, const ExpertPlacement* placement,
        Communicator& stage_group, StateTypes types, Recompute recompute, OriginWatch* watch);

  std::vector<OperatorState*> operators();
  // The layer computes no more.
  LayerOperators take_operators();
  // Of one routed expert; 0: none is hosted here.
  int64_t expert_weights() const {
    return operators_.experts.empty() ? 0 : operators_.experts.front()->spec().flat_size;
  }

  // x [batch * T, hidden]. With batch 0 only the experts run, for the tokens of other lanes.
  // `probe` looks on; null: nobody does.
  BlockResult forward(const at::Tensor& x, int64_t batch, const TokenPlace& place,
                      const FiniteProbe* probe) const;

 private:
  BlockResult compute(const at::Tensor& x, int64_t batch, const TokenPlace& place,
                      const FiniteProbe* probe) const;
  // Keeps x alone and computes the layer again in the backward pass. Its tokens travel again, too:
  // all lanes do that at the same place of the same round, so no message is without its partner.
  BlockResult compute_twice(const at::Tensor& x, int64_t batch, const TokenPlace& place,
                            const FiniteProbe* probe) const;
  at::Tensor norm(const at::Tensor& x, const std::string& name) const;
  struct FeedForwardOutputs {
    at::Tensor always;  // of the dense part or the shared experts; undefined without
    at::Tensor mixed;   // of the routed experts; undefined in dense layers
  };
  FeedForwardOutputs feed_forward(const at::Tensor& x, bool has_tokens, const TokenPlace& place,
                                  const FiniteProbe* probe, BlockResult& result) const;
  // The shared experts, with their gate if there is one; it reads `gate_input`, the same values.
  at::Tensor shared_experts(const at::Tensor& x, const at::Tensor& gate_input) const;
  void watch_choice(const GateChoice& choice, const at::Tensor& outputs,
                    const FiniteProbe& probe) const;

  LayerOperators operators_;
  const ModelShape& shape_;
  const ExpertPlacement* const placement_;
  Communicator& group_;
  const Recompute recompute_;
  OriginWatch* const watch_;  // null: nobody watches
  const Attention attention_;
  std::vector<FeedForward> experts_;  // routed, hosted here
  StackedExperts stack_;              // where there are kernels for grouped products
  std::vector<std::string> expert_names_;
  std::unique_ptr<FeedForward> always_;  // the dense part, or the shared experts
};

}  // namespace evermoe
