// How the operators of a stage come to the lanes that train, and experts to those that they are
// placed on.

#include <algorithm>
#include <iterator>
#include <span>

#include "base/error.h"
#include "config/job_topology.h"
#include "train/state/owner_change.h"
#include "train/step/rank_model.h"

namespace evermoe {
namespace {

// That of the group's member `first`.
absl::Status share_balance(Communicator& group, int first, const JobConfig& config,
                           ExpertBalance& balance) {
  if (!moves_experts(config)) return absl::OkStatus();
  std::vector<int64_t> numbers = to_numbers(balance);
  auto size = static_cast<int64_t>(numbers.size());
  RETURN_IF_ERROR(group.broadcast(first, std::as_writable_bytes(std::span(&size, 1))));
  numbers.resize(static_cast<size_t>(size));
  RETURN_IF_ERROR(group.broadcast(first, std::as_writable_bytes(std::span(numbers))));
  const ModelShape& shape = config.model;
  ASSIGN_OR_RETURN(balance,
                   balance_from(numbers, shape.moe_layers_before(shape.layers), shape.experts));
  return absl::OkStatus();
}

absl::Status share_position(Communicator& group, int first, RecordBytes& position) {
  auto size = static_cast<int64_t>(position.size());
  RETURN_IF_ERROR(group.broadcast(first, std::as_writable_bytes(std::span(&size, 1))));
  position.resize(static_cast<size_t>(size));
  return group.broadcast(first, position);
}

}  // namespace

// ---- where experts live

void RankModel::settle_balance(ExpertBalance& balance) const {
  const ModelShape& shape = config_.model;
  if (!moves_experts(config_)) {
    balance.clear();
    return;
  }
  if (balance.empty())
    balance = initial_balance(shape.moe_layers_before(shape.layers), shape.experts);
  settle(balance, lanes_of_moe_layers(shape, membership_.lanes()), balance_options(config_));
}

LayerPlacements RankModel::placements_by(const Membership& membership,
                                         const ExpertBalance& balance) const {
  LayerPlacements placements;
  const ModelShape& shape = config_.model;
  for (int64_t layer = topology_.first_layer(role_.stage);
       layer < topology_.first_layer(role_.stage + 1); ++layer) {
    if (!shape.is_moe_layer(layer)) continue;
    placements.emplace(
        layer, moves_experts(config_)
                   ? placement_of(balance[static_cast<size_t>(shape.moe_layers_before(layer))])
                   : expert_placement_of(config_, membership.lanes().lanes(role_.stage)));
  }
  return placements;
}

void RankModel::take_balance(ExpertBalance& balance) {
  settle_balance(balance);
  LayerPlacements placements = placements_by(membership_, balance);
  if (placements == placements_) return;
  parts_.reset();
  placements_ = std::move(placements);
  parts_ = new_parts(view_);
}

absl::Status RankModel::move_experts(const ExpertBalance& to, Step step) {
  if (rests() || !would_move(to)) return absl::OkStatus();
  return guard([&]() -> absl::Status {
    const Owners then{membership_, placements_};
    const std::unique_ptr<Parts> old = take_shards();
    placements_ = placements_by(membership_, to);
    parts_ = new_parts(view_);
    Communicator group(transport_, membership_.stage_group(role_.stage),
                       {view_, expert_move_group(step), deadline_});
    move_operators(group, then, old.get());
    return derive_compute();
  });
}

// ---- who trains

void RankModel::take_membership(const Membership& membership, View view, ExpertBalance& balance) {
  parts_.reset();
  view_ = view;
  membership_ = membership;
  settle_balance(balance);
  placements_ = placements_by(membership, balance);
  parts_ = new_parts(view);
}

absl::Status RankModel::change_membership(const Membership& to, View view, Step step,
                                          RecordBytes& position, ExpertBalance& balance) {
  view_ = view;
  const Membership then = membership_;
  const std::vector<Rank> before = then.stage_group(role_.stage);
  const std::vector<Rank> after = to.stage_group(role_.stage);
  std::vector<Rank> movers;
  std::ranges::set_union(before, after, std::back_inserter(movers));
  if (before == after || std::ranges::count(movers, transport_.rank()) == 0) {
    membership_ = to;
    settle_balance(balance);
    // Neighbours may be others.
    if (!rests()) parts_->runner = new_runner(*to.place_of(transport_.rank()), *parts_->model);
    return absl::OkStatus();
  }
  return guard([&]() -> absl::Status {
    Communicator group(transport_, movers, {view, move_group(step), deadline_});
    const auto first = static_cast<int>(std::ranges::find(movers, before.front()) - movers.begin());
    RETURN_IF_ERROR(share_balance(group, first, config_, balance));
    const std::unique_ptr<Parts> old = take_shards();
    const Owners from{then, placements_by(then, balance)};
    membership_ = to;
    settle_balance(balance);
    placements_ = placements_by(to, balance);
    parts_ = new_parts(view);
    move_operators(group, from, old.get());
    RETURN_IF_ERROR(share_position(group, first, position));
    return derive_compute();
  });
}

// ---- the move

std::vector<Rank> RankModel::Owners::of(const OperatorSpec& spec, int stage) const {
  const std::vector<Rank> group = membership.stage_group(stage);
  if (spec.kind != OperatorKind::kExpert) return group;
  std::vector<Rank> ranks;
  for (const int lane : placements.at(spec.layer).lanes_of(spec.expert))
    ranks.push_back(group[static_cast<size_t>(lane)]);
  return ranks;
}

std::unique_ptr<RankModel::Parts> RankModel::take_shards() {
  std::unique_ptr<Parts> old = std::move(parts_);
  if (old == nullptr) return nullptr;
  old->runner.reset();
  old->model->keep_only_shards();
  return old;
}

void RankModel::move_operators(Communicator& movers, const Owners& then, Parts* before) {
  const Owners now{membership_, placements_};
  const auto state_of = [](Parts* parts, const OperatorSpec& spec) -> OperatorState* {
    if (parts == nullptr) return nullptr;
    const auto found = std::ranges::find(
        parts->operators, spec.name, [](const OperatorState* state) { return state->spec().name; });
    return found == parts->operators.end() ? nullptr : *found;
  };
  uint32_t name = 0;
  for (const OperatorSpec& spec : operators_of_stage(config_.model, topology_, role_.stage)) {
    move_operator(movers, name++, spec, {then.of(spec, role_.stage), now.of(spec, role_.stage)},
                  state_of(before, spec), state_of(parts_.get(), spec));
  }
}

}  // namespace evermoe
