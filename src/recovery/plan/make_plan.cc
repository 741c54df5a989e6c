#include "recovery/plan/make_plan.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "recovery/plan/fresh_roles.h"
#include "recovery/plan/renewal.h"

namespace evermoe {
namespace {

// It has the state of a step for which nobody keeps records, messages or gradients any more. Two
// hosts have had the job for a while, and what it had found is older than what others did.
bool is_left_behind(const Plan& plan, const Report& report) {
  const Step oldest = plan.window >= Step(0) ? plan.window : plan.base;
  return report.has_state && report.held_state < oldest;
}

// Why the stage has to begin anew; empty if it does not.
std::string reason_to_begin_anew(const PlanInputs& in, const Plan& plan, int stage) {
  std::vector<Rank> group = in.topology->stage_group(stage);
  std::erase_if(group, [&](Rank rank) {
    return is_fresh(in.reports[static_cast<size_t>(rank.value)]) && may_be_new(in, plan, rank);
  });
  const Report& first = in.reports[static_cast<size_t>(group.front().value)];
  for (const Rank rank : group) {
    const Report& report = in.reports[static_cast<size_t>(rank.value)];
    const std::string name = in.topology->name_of(rank);
    if (is_fresh(report)) return absl::StrCat("role ", name, " is played by a new process");
    if (report.is_broken) return absl::StrCat("role ", name, " had to leave its step");
    if (awaits_what_is_lost(in, report))
      return absl::StrCat("role ", name, " was taking the state of step ",
                          report.awaits_state.value, ", which nobody alive has whole");
    if (is_left_behind(plan, report))
      return absl::StrCat("role ", name, " is at step ", report.held_state.value,
                          ", from before all that is kept");
    if (report.stage_epoch != first.stage_epoch) return "its roles joined it in different views";
  }
  return "";
}

// What a rank has to be given to be restored: `gradients` of so many steps at least.
bool holds(const Report& report, const HeldWindow& needed) {
  const auto key = [](const HeldWindow& held) { return std::pair(held.window, held.owner); };
  const auto found = std::ranges::lower_bound(report.held, key(needed), {}, key);
  return found != report.held.end() && key(*found) == key(needed) &&
         found->gradients >= needed.gradients;
}

HeldWindow needed_by(const PlanInputs& in, const Plan& plan, Rank rank) {
  const int64_t steps = in.strategy.keeps_gradients() ? plan.state.value - plan.window.value : 0;
  return {rank, plan.window, steps};
}

// As the newest plan had it.
const MembershipHistory& known_membership(const PlanInputs& in) {
  return std::ranges::max_element(in.reports, {}, &Report::plan_view)->membership;
}

// What is to come is planned in this view.
MembershipHistory by_script(const PlanInputs& in, const Plan& plan) {
  MembershipHistory history = in.script;
  for (MembershipChange& change : history) {
    const auto known =
        std::ranges::find(known_membership(in), change.step, &MembershipChange::step);
    const bool has_been = change.step <= plan.state && known != known_membership(in).end();
    change.view = has_been ? known->view : plan.view;
  }
  return history;
}

// Who rests, as far as anybody may go back, and what is to come.
MembershipHistory membership_of(const PlanInputs& in, const Plan& plan) {
  const Step oldest = plan.window >= Step(0) ? plan.window : plan.base;
  if (!in.script.empty()) return since(by_script(in, plan), oldest);
  MembershipHistory history = known_membership(in);
  // What nobody has come to may still be changed.
  std::erase_if(history, [&](const MembershipChange& change) { return change.step > plan.state; });
  if (in.wanted && in.wanted->resting != resting_at(history, plan.state)) {
    history.push_back(*in.wanted);
    history.back().step = Step(plan.state.value + 1);
    history.back().view = plan.view;
  }
  return since(std::move(history), oldest);
}

// Where the job will go on is not known yet: from there on.
MembershipHistory membership_of_restart(const PlanInputs& in, const Plan& plan) {
  if (!in.script.empty()) return by_script(in, plan);
  MembershipChange first;
  if (in.wanted)
    first = *in.wanted;
  else if (!known_membership(in).empty())
    first = known_membership(in).back();
  first.step = Step(0);
  first.view = plan.view;
  return first.resting.empty() ? MembershipHistory{} : MembershipHistory{first};
}

Plan restart_all(const PlanInputs& in, Plan plan, std::string reason) {
  plan.restart_all = true;
  plan.rejoining.clear();
  plan.stage_epochs.assign(static_cast<size_t>(in.topology->stages()), plan.view);
  plan.membership = membership_of_restart(in, plan);
  plan.newest = Commit(-1);  // what was committed is gone with it
  plan.state = plan.window = plan.base = Step(-1);
  plan.rolled_back.clear();
  plan.sources.clear();
  plan.reasons.push_back(std::move(reason));
  return plan;
}

// Empty if no live rank knows how far the job was.
const Report* newest_report(const PlanInputs& in) {
  const Report* newest = nullptr;
  for (const Report& report : in.reports) {
    // One that was still gathering what it needs to go back has no records.
    if (is_fresh(report) || report.base < Step(0) || report.newest < Commit(0)) continue;
    if (newest == nullptr || report.newest > newest->newest) newest = &report;
  }
  return newest;
}

// The sources of one rank; false if nobody has its window.
bool add_sources(const PlanInputs& in, Rank rank, Plan& plan) {
  const HeldWindow window = needed_by(in, plan, rank);
  std::vector<Rank>& sources = plan.sources[static_cast<size_t>(rank.value)];
  for (const Report& report : in.reports) {
    if (holds(report, window)) sources.push_back(report.rank);
  }
  // Its own memory comes first: it costs nothing.
  std::stable_partition(sources.begin(), sources.end(),
                        [&](Rank holder) { return holder == rank; });
  if (sources.empty()) return false;
  if (sources.front() == rank) return true;
  plan.reasons.push_back(absl::StrCat(
      "role ", in.topology->name_of(rank), " takes window ", plan.window.value, " from ",
      absl::StrJoin(sources, ", then ",
                    [&](std::string* out, Rank r) { *out += in.topology->name_of(r); })));
  return true;
}

// All but processes that are new and may be.
bool began_together(const std::vector<Report>& reports) {
  View epoch;
  for (const Report& report : reports) {
    if (is_fresh(report)) continue;
    if (epoch != View(0) && report.stage_epoch != epoch) return false;
    epoch = report.stage_epoch;
  }
  return true;
}

std::vector<int> all_stages(const PlanInputs& in) {
  std::vector<int> stages(static_cast<size_t>(in.topology->stages()));
  std::iota(stages.begin(), stages.end(), 0);
  return stages;
}

// In which view each stage begins or has begun, and who comes to it there.
void set_epochs(const PlanInputs& in, Plan& plan) {
  plan.stage_epochs.assign(static_cast<size_t>(in.topology->stages()), plan.view);
  for (const Report& report : in.reports) {
    if (goes_back(in, plan, report.rank)) continue;
    if (is_fresh(report))
      plan.rejoining.push_back(report.rank);
    else
      plan.stage_epochs[static_cast<size_t>(in.topology->role_of(report.rank).stage)] =
          report.stage_epoch;
  }
}

// Who begins anew, where, and why.
void choose_stages(const PlanInputs& in, Plan& plan) {
  std::vector<std::string> why;  // of each of them
  for (int stage = 0; stage < in.topology->stages(); ++stage) {
    std::string reason = reason_to_begin_anew(in, plan, stage);
    if (reason.empty()) continue;
    plan.rolled_back.push_back(stage);
    why.push_back(std::move(reason));
  }
  const bool are_together = in.strategy.restore == Restore::kEverybody;
  // One that missed the plan by which the others went back has freed what they need of it.
  const bool is_apart = are_together && why.empty() && !began_together(in.reports);
  const bool with_all = are_together && (!why.empty() || is_apart);
  const std::vector<int> with_reason = plan.rolled_back;
  if (with_all || !in.go_back_reason.empty()) plan.rolled_back = all_stages(in);
  if (plan.rolled_back.empty()) return;
  plan.renews = can_renew(in, plan);
  // Where gradients are kept it comes to the newest state by updates, with no step run again.
  const bool runs_again = !plan.renews && !in.strategy.keeps_gradients();
  for (size_t i = 0; i < why.size(); ++i) {
    plan.reasons.push_back(absl::StrCat("stage ", with_reason[i],
                                        runs_again ? " goes back: " : " begins anew: ", why[i]));
  }
  if (plan.renews) {
    plan.reasons.push_back(
        absl::StrCat("nobody goes back: all that is needed of the state at step ", plan.state.value,
                     " is there"));
    return;
  }
  if (is_apart)
    plan.reasons.push_back("not all stages went back together: roles began in different views");
  if (in.go_back_reason.empty() && !with_all) return take_neighbours_along(in, plan);
  plan.reasons.push_back(absl::StrCat(
      "all stages go back: ",
      in.go_back_reason.empty()
          ? absl::StrCat("protection.strategy = ", std::string(to_string(in.strategy.kind)))
          : in.go_back_reason));
}

std::string nobody_has(const PlanInputs& in, Rank rank, Step window) {
  std::string text = absl::StrCat("nobody alive holds window ", window.value,
                                  in.strategy.keeps_gradients() ? " and the gradients since" : "",
                                  " of role ", in.topology->name_of(rank));
  if (in.former_holders.empty()) return text;
  const auto& former = in.former_holders[static_cast<size_t>(rank.value)];
  return absl::StrCat(
      text, "; its copies were at ",
      former.empty() ? "no other role" : absl::StrJoin(former, ", ", [&](std::string* out, Rank r) {
        *out += in.topology->name_of(r);
      }));
}

// To which window stages go back; -1: to the base.
Step window_of(const PlanInputs& in, const Report& newest) {
  if (newest.complete_window >= Step(0) || !in.strategy.keeps_gradients())
    return newest.complete_window;
  // Neighbours do not keep the messages of the steps since the base. Copies of the first window are
  // where they were, though new holders do not have them yet.
  return newest.state > newest.base ? newest.base : Step(-1);
}

}  // namespace

std::vector<std::vector<int>> segments_of(std::vector<int> stages) {
  std::sort(stages.begin(), stages.end());
  std::vector<std::vector<int>> segments;
  for (const int stage : stages) {
    if (segments.empty() || segments.back().back() + 1 != stage) segments.emplace_back();
    segments.back().push_back(stage);
  }
  return segments;
}

bool has_moved_since(const Plan& plan, Step experts_moved) {
  return changes_between(plan.membership, plan.window, plan.state) ||
         (plan.window < experts_moved && experts_moved <= plan.state);
}

Plan make_plan(const PlanInputs& in) {
  CHECK(in.topology->world_size() == static_cast<int>(in.reports.size()))
      << in.reports.size() << " reports";
  Plan plan;
  plan.view = in.view;
  plan.table = in.table;
  plan.holders = in.holders;
  const Report* const newest = newest_report(in);
  if (!in.restart_reason.empty()) return restart_all(in, std::move(plan), in.restart_reason);
  if (newest == nullptr)
    return restart_all(in, std::move(plan), "every role begins: nobody has a state of this job");
  for (const Report& report : in.reports) {
    if (is_fresh(report) || report.base >= Step(0)) continue;
    return restart_all(in, std::move(plan),
                       "a failure while the job was resuming: all resume again");
  }
  plan.newest = newest->newest;
  plan.state = newest->state;
  plan.record_source = newest->rank;
  plan.base = newest->base;
  plan.window = window_of(in, *newest);
  plan.membership = membership_of(in, plan);
  choose_stages(in, plan);
  set_epochs(in, plan);
  if (!in.strategy.keeps_copies()) {
    if (plan.rolled_back.empty()) return plan;
    return restart_all(in, std::move(plan),
                       in.go_back_reason.empty()
                           ? "without protection, a lost worker sends all back"
                           : in.go_back_reason);
  }
  plan.sources.resize(in.reports.size());
  add_whole_states(in, plan);
  if (plan.window < Step(0)) {
    if (plan.rolled_back.empty() || plan.renews) return plan;
    plan.reasons.push_back(absl::StrCat("no window is complete yet: back to the state at step ",
                                        plan.base.value, ", where the job began"));
    return plan;
  }
  for (const Report& report : in.reports) {
    if (rests(plan.membership, report.rank, plan.window)) continue;
    const bool must_go_back = goes_back(in, plan, report.rank);
    if (plan.renews && must_go_back) continue;
    if (!must_go_back && (only_rests(plan, report.rank) || report.awaits_state >= Step(0)))
      continue;
    // It needs the gradients of one step at most, and has them itself, unless they are damaged.
    const bool keeps_state = in.strategy.keeps_gradients() && report.has_state &&
                             !is_left_behind(plan, report) &&
                             !has_moved_since(plan, report.experts_moved);
    // A rank that goes on catching up may still be gathering its window.
    const bool has_all = report.has_state || holds(report, needed_by(in, plan, report.rank));
    if (!must_go_back && has_all) continue;
    if (add_sources(in, report.rank, plan) || keeps_state) continue;
    const std::string reason = nobody_has(in, report.rank, plan.window);
    return restart_all(in, std::move(plan), reason);
  }
  return plan;
}

}  // namespace evermoe
