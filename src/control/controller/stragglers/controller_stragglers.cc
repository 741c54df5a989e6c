// What a controller does about roles that compute slower than others.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "control/controller/controller_core.h"

namespace evermoe {
namespace {

// So many times at most: where it is slow everywhere the machine is not at fault.
constexpr int kMovesOfRoleMax = 2;

}  // namespace

void ControllerCore::watch_stragglers() {
  if (!is_open() || now_ < next_look_) return;
  next_look_ = now_ + options_.stragglers.look;
  for (const StragglerWatch::Finding& finding : stragglers_.look(watch_.mean_step()))
    tell_straggler(finding);
  for (const SlowLinkWatch::Finding& finding : links_.look(now_, slow_nodes_)) tell_link(finding);
  if (options_.stragglers.moves) move_stragglers();
}

void ControllerCore::tell_straggler(const StragglerWatch::Finding& finding) {
  const Rank rank = finding.rank;
  const Node node = roles_[rank].node;
  const std::string where = absl::StrCat("role ", name_of(rank), " on node ", node.value);
  actions_.emplace_back(
      StragglerFound{rank, node, finding.factor, finding.step, /*is_over=*/!finding.is_slow});
  if (!finding.is_slow) {
    slow_nodes_.erase(node);
    return tell(absl::StrFormat("%s is no straggler any more: %.2f times as long as others", where,
                                finding.factor));
  }
  slow_nodes_.insert(node);
  tell(
      absl::StrFormat("%s is a straggler: it computes %.2f times as long as others did in the "
                      "last %d steps, to step %d",
                      where, finding.factor, options_.stragglers.for_steps, finding.step.value));
}

// One after the other: the others are compared anew when one has gone.
void ControllerCore::move_stragglers() {
  if (!is_calm() || moving_.is_under_way()) return;
  for (int32_t r = 0; r < roles_.size(); ++r) {
    const auto slowness = stragglers_.slowness(Rank(r));
    if (slowness && move_straggler(Rank(r), *slowness)) return;
  }
}

// True: it moves.
bool ControllerCore::move_straggler(Rank rank, const StragglerWatch::Slowness& slowness) {
  StragglerMoves& before = straggler_moves_[rank];
  const Step newest = step_of(progress_.newest());
  if (before.count == kMovesOfRoleMax || newest < before.next) return false;
  before.next = Step(newest.value + options_.stragglers.for_steps);
  const MovePayoff payoff = payoff_of_move(slowness.excess);
  std::string why_not = payoff.is_positive ? "" : "a move would not pay: " + payoff.arithmetic;
  if (payoff.is_positive) {
    const auto begun = begin_move({rank}, {},
                                  absl::StrFormat("straggler: it computes %.2f times as long as "
                                                  "others; %s",
                                                  slowness.factor, payoff.arithmetic),
                                  slow_nodes_);
    if (begun.ok()) {
      ++before.count;
      return true;
    }
    why_not = std::string(begun.status().message());
  }
  // The arithmetic changes with every step.
  const std::string kind = payoff.is_positive ? why_not : "a move would not pay";
  if (std::exchange(before.told, kind) != kind)
    tell(absl::StrCat("straggler ", name_of(rank), " stays: ", why_not));
  return false;
}

}  // namespace evermoe
