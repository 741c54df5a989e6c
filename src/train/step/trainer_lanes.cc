// How a trainer comes to other lanes, and its experts to others.

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "config/job_topology.h"
#include "env/clock.h"
#include "train/state/owner_change.h"
#include "train/step/trainer.h"

namespace evermoe {

// ---- lanes

void Trainer::take_membership(const Membership& membership) {
  if (membership == model_->membership()) return;
  CHECK(!partial_) << "checkpoints of a few experts are laid out for everybody";
  CHECK_OK(guard([&] {
    model_->take_membership(membership, view_, position_.experts);
    return absl::OkStatus();
  }));
  shards_ = new_shards();
}

void Trainer::rest_at(Step step, const Findings& verdict) {
  CHECK(model_->rests()) << "a role that trains";
  position_.step = step;
  is_drained_ = !verdict.minima.empty() && from_findings(verdict, moe_layers()).drain;
}

absl::Status Trainer::change_membership(const Membership& to, View view, RecordBytes& position) {
  view_ = std::max(view_, view);
  CHECK(!partial_) << "checkpoints of a few experts are laid out for everybody";
  // A save that is still being copied has this state.
  for (const OperatorState* const state : model_->operators())
    RETURN_IF_ERROR(durable_.wait_copied(*state));
  const absl::Status changed =
      model_->change_membership(to, view_, position_.step, position, position_.experts);
  shards_ = new_shards();  // also of a move that failed
  expert_loads_ = {};
  return changed;
}

// ---- experts

bool Trainer::may_move_experts(Step state) const {
  const JobConfig& config = model_->config();
  return evermoe::moves_experts(config) && is_balance_due(state, balance_options(config)) &&
         state.value < config.train.steps;
}

bool Trainer::moves_experts() const {
  if (model_->rests()) return false;
  return model_->would_move(
      rebalanced(position_.experts, balance_options(model_->config())).balance);
}

absl::Status Trainer::move_experts() {
  if (model_->rests()) return absl::OkStatus();
  Rebalance next = rebalanced(position_.experts, balance_options(model_->config()));
  if (std::ranges::count(next.moves, true) == 0) return absl::OkStatus();
  const absl::Duration began = real_clock().now();
  ExpertMove move{.step = position_.step,
                  .moved_bytes = bytes_to_move(next.balance),
                  .imbalance_before = next.imbalance_before,
                  .imbalance_after = next.imbalance_after};
  if (model_->would_move(next.balance)) {
    for (const OperatorState* const state : model_->operators())
      RETURN_IF_ERROR(durable_.wait_copied(*state));
    const absl::Status moved = model_->move_experts(next.balance, position_.step);
    shards_ = new_shards();  // also of a move that failed
    expert_loads_ = {};
    RETURN_IF_ERROR(moved);
    experts_moved_ = position_.step;
  }
  position_.experts = std::move(next.balance);
  move.pause_seconds = absl::ToDoubleSeconds(real_clock().now() - began);
  last_move_ = move;
  return absl::OkStatus();
}

absl::Status Trainer::set_balance(std::span<const int64_t> numbers) {
  const JobConfig& config = model_->config();
  const bool counts = evermoe::moves_experts(config);
  ASSIGN_OR_RETURN(
      ExpertBalance balance,
      balance_from(numbers, counts ? static_cast<int64_t>(moe_layers()) : 0, config.model.experts));
  RETURN_IF_ERROR(guard([&] {
    model_->take_balance(balance);
    return absl::OkStatus();
  }));
  position_.experts = std::move(balance);
  shards_ = new_shards();
  return absl::OkStatus();
}

int64_t Trainer::bytes_to_move(const ExpertBalance& to) const {
  const ModelShape& shape = model_->config().model;
  int64_t elements = 0;
  for (const OperatorSpec& spec : model_operators(shape)) {
    if (spec.kind != OperatorKind::kExpert) continue;
    const auto layer = static_cast<size_t>(shape.moe_layers_before(spec.layer));
    elements += elements_to_move(spec.flat_size,
                                 placement_of(position_.experts[layer]).lanes_of(spec.expert),
                                 placement_of(to[layer]).lanes_of(spec.expert));
  }
  return model_->types().stored.full_bytes(elements);
}

}  // namespace evermoe
