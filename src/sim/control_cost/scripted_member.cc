#include "sim/control_cost/scripted_member.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

// As long as those of workers that may use UCX.
constexpr size_t kAddressBytes = 300;
constexpr int64_t kWindowSteps = 8;

}  // namespace

void ScriptedMember::obey(const Welcome&, const Say& say) {
  MemberJoined joined{.rank = rank_, .since = since_};
  joined.address = absl::StrCat("rank ", rank_.value, " of view ", since_.value, ":",
                                std::string(kAddressBytes, 'x'));
  joined.newest_view = newest_view_;
  joined.is_open = is_open_;
  joined.stage_epoch = epoch_;
  joined.newest = newest_;
  say(joined);
}

void ScriptedMember::obey(const ControllerMessage& order, const Say& say) {
  std::visit([&](const auto& one) { obey_order(one, say); }, order);
}

void ScriptedMember::obey_order(const StopOrder& stop, const Say& say) {
  newest_view_ = stop.view;
  is_open_ = false;
  Report report{.view = stop.view, .rank = rank_, .stage_epoch = epoch_, .is_broken = is_broken_};
  report.newest = newest_;
  report.base = base_;
  report.complete_window = window_;
  if (window_ >= Step(0)) {
    for (const Rank owner : kept_) report.held.push_back({owner, window_});
  }
  say(MemberSaid{rank_, since_, report});
}

void ScriptedMember::obey_order(const Plan& plan, const Say& say) {
  newest_view_ = entered_ = plan.view;
  is_open_ = true;
  kept_ = {rank_};
  for (size_t r = 0; r < plan.holders.size(); ++r) {
    if (std::ranges::count(plan.holders[r], rank_) > 0)
      kept_.push_back(Rank(static_cast<int32_t>(r)));
  }
  std::sort(kept_.begin(), kept_.end());
  const auto tell = [&](Milestone::Kind kind) {
    say(MemberSaid{rank_, since_, Milestone{plan.view, rank_, kind}});
  };
  tell(Milestone::Kind::kOpened);
  if (!plan.restart_all && std::ranges::count(plan.rolled_back, stage_) == 0) return;
  epoch_ = plan.view;
  is_broken_ = false;
  base_ = std::max(plan.base, Step(0));
  newest_ = std::max(plan.newest, verdict_commit(base_));
  window_ = plan.window;
  tell(Milestone::Kind::kRestored);
  tell(Milestone::Kind::kCaughtUp);
}

void ScriptedMember::commit(Step step, const Say& say) {
  newest_ = verdict_commit(step);
  window_ = Step(step.value / kWindowSteps * kWindowSteps);
  say(MemberSaid{rank_, since_, Progress{entered_, rank_, newest_, window_}});
}

}  // namespace evermoe
