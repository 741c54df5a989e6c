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
  return guard([&] {
    const Owners then{membership_, placements_};
    placements_ = placements_by(membership_, to);
    Communicator group(transport_, membership_.stage_group(role_.stage),
                       {view_, expert_move_group(step), deadline_});
    return move_operators(group, then);
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
    const Owners from{then, placements_by(then, balance)};
    membership_ = to;
    settle_balance(balance);
    placements_ = placements_by(to, balance);
    RETURN_IF_ERROR(move_operators(group, from));
    return share_position(group, first, position);
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

std::set<std::string> RankModel::staying(const Owners& then, const Owners& now) const {
  const auto moves = [&](const OperatorSpec& spec) {
    return then.of(spec, role_.stage) != now.of(spec, role_.stage);
  };
  std::vector<OperatorSpec> specs = operators_of_stage(config_.model, topology_, role_.stage);
  std::set<int64_t> torn;  // layers whose experts lie side by side, and not in the same places
  for (const OperatorSpec& spec : specs) {
    if (types_.groups_experts() && spec.kind == OperatorKind::kExpert && moves(spec))
      torn.insert(spec.layer);
  }
  std::set<std::string> names;
  for (const OperatorSpec& spec : specs) {
    const bool is_torn = spec.kind == OperatorKind::kExpert && torn.contains(spec.layer);
    if (!is_torn && !moves(spec)) names.insert(spec.name);
  }
  return names;
}

absl::Status RankModel::move_operators(Communicator& movers, const Owners& then) {
  const Owners now{membership_, placements_};
  const std::set<std::string> stay = staying(then, now);
  const std::unique_ptr<Parts> old = std::move(parts_);
  OperatorStates leaving, kept;
  if (old != nullptr) {
    old->runner.reset();
    leaving = old->model->take_operators();
  }
  for (const std::string& name : stay) kept.insert(leaving.extract(name));
  for (const auto& [name, state] : leaving) state->keep_only_shard();
  parts_ = new_parts(view_, std::move(kept));
  std::vector<OperatorState*> moved = operators();
  std::erase_if(moved,
                [&](const OperatorState* state) { return stay.contains(state->spec().name); });
  uint32_t name = 0;
  for (const OperatorSpec& spec : operators_of_stage(config_.model, topology_, role_.stage)) {
    ++name;
    if (stay.contains(spec.name)) continue;
    const auto from = leaving.find(spec.name);
    const auto into = std::ranges::find(
        moved, spec.name, [](const OperatorState* state) { return state->spec().name; });
    move_operator(movers, name, spec, {then.of(spec, role_.stage), now.of(spec, role_.stage)},
                  from == leaving.end() ? nullptr : from->second.get(),
                  into == moved.end() ? nullptr : *into);
    // Its shard is where it is needed.
    leaving.erase(spec.name);
  }
  return derive_compute(moved);
}

}  // namespace evermoe
