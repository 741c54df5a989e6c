// How the operators of a stage come to the lanes that train.

#include <algorithm>
#include <iterator>
#include <span>

#include "base/error.h"
#include "config/job_topology.h"
#include "train/state/owner_change.h"
#include "train/step/rank_model.h"

namespace evermoe {

void RankModel::take_membership(const Membership& membership, View view) {
  parts_.reset();
  membership_ = membership;
  parts_ = new_parts(view);
}

absl::Status RankModel::change_membership(const Membership& to, View view, Step step,
                                          RecordBytes& position) {
  const Membership then = membership_;
  const std::vector<Rank> before = then.stage_group(role_.stage);
  const std::vector<Rank> after = to.stage_group(role_.stage);
  std::vector<Rank> movers;
  std::ranges::set_union(before, after, std::back_inserter(movers));
  membership_ = to;
  if (before == after || std::ranges::count(movers, transport_.rank()) == 0) {
    // Neighbours may be others.
    if (!rests()) parts_->runner = new_runner(*to.place_of(transport_.rank()), *parts_->model);
    return absl::OkStatus();
  }
  return guard([&]() -> absl::Status {
    const std::unique_ptr<Parts> old = std::move(parts_);
    if (old != nullptr) {
      old->runner.reset();
      for (OperatorState* const state : old->operators) state->keep_only_shard();
    }
    parts_ = new_parts(view);
    Communicator group(transport_, movers, {view, move_group(step), deadline_});
    move_operators(group, then, old.get());
    const auto first = static_cast<int>(std::ranges::find(movers, before.front()) - movers.begin());
    auto size = static_cast<int64_t>(position.size());
    RETURN_IF_ERROR(group.broadcast(first, std::as_writable_bytes(std::span(&size, 1))));
    position.resize(static_cast<size_t>(size));
    RETURN_IF_ERROR(group.broadcast(first, position));
    return derive_compute();
  });
}

void RankModel::move_operators(Communicator& movers, const Membership& then, Parts* before) {
  const auto placement_at = [&](const Membership& membership) {
    return expert_placement_of(config_, membership.lanes().lanes(role_.stage));
  };
  const ExpertPlacement placed_then = placement_at(then), placed_now = placement_at(membership_);
  const auto owners = [&](const OperatorSpec& spec, const Membership& membership,
                          const ExpertPlacement& placement) {
    const std::vector<Rank> group = membership.stage_group(role_.stage);
    if (spec.kind != OperatorKind::kExpert) return group;
    std::vector<Rank> ranks;
    for (const int lane : placement.lanes_of(static_cast<int>(spec.expert)))
      ranks.push_back(group[static_cast<size_t>(lane)]);
    return ranks;
  };
  const auto state_of = [](Parts* parts, const OperatorSpec& spec) -> OperatorState* {
    if (parts == nullptr) return nullptr;
    const auto found = std::ranges::find(
        parts->operators, spec.name, [](const OperatorState* state) { return state->spec().name; });
    return found == parts->operators.end() ? nullptr : *found;
  };
  uint32_t name = 0;
  for (const OperatorSpec& spec : operators_of_stage(config_.model, topology_, role_.stage)) {
    move_operator(movers, name++, spec,
                  {owners(spec, then, placed_then), owners(spec, membership_, placed_now)},
                  state_of(before, spec), state_of(parts_.get(), spec));
  }
}

}  // namespace evermoe
