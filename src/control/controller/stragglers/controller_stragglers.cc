// What a controller does about roles that compute slower than others.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "control/controller/controller_core.h"
#include "control/controller/stragglers/straggler_decision.h"

namespace evermoe {
namespace {

// So many times at most: where it is slow everywhere the machine is not at fault.
constexpr int kMovesOfRoleMax = 2;
// Of a step: for which a job stands in a move while none was measured.
constexpr double kPauseSteps = 0.5;

}  // namespace

void ControllerCore::watch_stragglers() {
  if (!is_open() || now_ < next_look_) return;
  next_look_ = now_ + options_.stragglers.look;
  for (const StragglerWatch::Finding& finding : stragglers_.look(watch_.median_step()))
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
  const MoveCosts costs = usual_move();
  const StragglerDecision decision =
      decide_straggler({.step = watch_.median_step(),
                        .excess = slowness.excess,
                        .preparation = costs.preparation,
                        .pause = costs.pause,
                        .steps_left = options_.steps.value - newest.value});
  std::string why_not = decision.is_moved ? "" : "a move would not pay: " + decision.arithmetic;
  if (decision.is_moved) {
    const auto begun = begin_move({rank}, {},
                                  absl::StrFormat("straggler: it computes %.2f times as long as "
                                                  "others; %s",
                                                  slowness.factor, decision.arithmetic),
                                  slow_nodes_);
    if (begun.ok()) {
      ++before.count;
      return true;
    }
    why_not = std::string(begun.status().message());
  }
  // The arithmetic changes with every step.
  const std::string kind = decision.is_moved ? why_not : "a move would not pay";
  if (std::exchange(before.told, kind) != kind)
    tell(absl::StrCat("straggler ", name_of(rank), " stays: ", why_not));
  return false;
}

// As the last one was, or would have been with a process that is warm already.
ControllerCore::MoveCosts ControllerCore::usual_move() const {
  const bool is_warm = standbys_.is_any_warm();
  for (auto move = moving_.records().rbegin(); move != moving_.records().rend(); ++move) {
    if (move->state != MoveRecord::State::kDone) continue;
    return {.preparation = move->stopped - (is_warm ? move->warm : move->asked),
            .pause = pause_of(*move)};
  }
  return {.preparation = is_warm ? absl::ZeroDuration() : options_.stragglers.preparation,
          .pause = std::max(options_.stragglers.pause, kPauseSteps * watch_.median_step())};
}

}  // namespace evermoe
