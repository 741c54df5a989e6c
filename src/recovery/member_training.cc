// The training thread of a member: begins by a plan, then runs the job's program.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "recovery/member.h"

namespace evermoe {
namespace {

// What a new view can repair. Everything else ends the process.
bool is_repairable(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
}

}  // namespace

absl::Status Member::train() {
  absl::Status result;
  while (true) {
    const auto plan = gate_.next_start();
    if (!plan.ok()) {
      const std::lock_guard lock(mutex_);
      result = released_ ? absl::OkStatus() : plan.status();
      break;
    }
    absl::Status status = begin(**plan);
    if (status.ok()) status = play();
    if (status.ok()) {
      gate_.set_finished();
      control_.send(Finished{rank_, trainer_.step()});
      continue;  // others may still need what this member holds, or its stage may have to go back
    }
    exchange_.finish();
    if (!is_repairable(status)) {
      result = status;
      break;
    }
    fail_inside_stage(status);
  }
  gate_.end(result);
  post_.wake_service();
  return result;
}

void Member::fail_inside_stage(const absl::Status& status) {
  report_trouble(gate_.newest_view(), status, /*inside_stage=*/true);
}

absl::Status Member::begin(const Plan& plan) {
  {
    const std::lock_guard lock(mutex_);
    ++work_.restarts;
  }
  fault_point("recovery/plan");
  caught_up_at_ = plan.newest;
  recomputed_since_begin_ = 0;
  return plan.restart_all ? resume(plan) : roll_back(plan);
}

absl::Status Member::resume(const Plan& plan) {
  copies_.abandon();
  copies_.clear();
  log_.clear();
  received_.clear();
  records_.clear();
  store_.clear();
  conversion_.reset();
  aside_ = {};
  active_.assign(active_.size(), true);
  has_state_ = false;
  trainer_.join_stage(plan.view);
  world_.restart(plan.view);
  // Nobody's new copies may come before everybody has thrown away the old ones.
  RETURN_IF_ERROR(annotate(world_.barrier(), "resuming"));
  ASSIGN_OR_RETURN(const std::string source, trainer_.resume(world_));
  const Step base = trainer_.step();
  Record first;
  ASSIGN_OR_RETURN(first.rule, first_rule(base));
  begin_order(first.rule);
  RETURN_IF_ERROR(records_.put(verdict_commit(base), encode(first)));
  gate_.set_base(base);
  has_state_ = true;
  if (!options_.is_protected) trainer_.forget_base();
  caught_up_at_ = verdict_commit(base);
  control_.send(Milestone{plan.view, rank_, Milestone::Kind::kRestored, 0, {source}});
  observer_.on_resumed(base, source);
  return absl::OkStatus();
}

absl::StatusOr<WindowRule> Member::first_rule(Step base) {
  int64_t slots[] = {std::min(options_.slots, options_.slots_max)};
  RETURN_IF_ERROR(annotate(world_.all_reduce<int64_t>(slots, ReduceOp::kMin), "agreeing on a window"));
  const auto agreed = static_cast<int>(slots[0]);
  return WindowRule{base, agreed, std::max(options_.period, agreed)};
}

bool Member::is_catching_up() const {
  return !trainer_.is_finished() && records_.newest() >= verdict_commit(Step(trainer_.step().value + 1));
}

absl::Status Member::play() {
  while (true) {
    RETURN_IF_ERROR(arrive());
    if (trainer_.is_finished()) return run_closing();
    RETURN_IF_ERROR(train_step());
  }
}

absl::Status Member::arrive() {
  if (conversion_) RETURN_IF_ERROR(restore_slot());
  const Step step = trainer_.step();
  const Step base = gate_.standing().base;
  if (options_.is_protected) {
    ASSIGN_OR_RETURN(const Record here, record_of(verdict_commit(step)));
    follow_rule(here.rule);
  }
  const bool is_dense = !conversion_;
  if (is_dense) {
    has_state_ = true;
    RETURN_IF_ERROR(compare_with_aside());
    if (options_.is_protected && schedule_.rule().is_first_of_window(step)) begin_window(step);
    const auto time = schedule_.time_of(step);
    if (options_.is_protected && time && !store_.has_slot(rank_, *time)) RETURN_IF_ERROR(copies_.capture(*time, position()));
  }
  const bool catches_up = is_catching_up();
  const View view = gate_.newest_view();
  if (!catches_up && is_dense && announced_ < gate_.standing().stage_epoch) {
    announced_ = view;
    control_.send(Milestone{view, rank_, Milestone::Kind::kCaughtUp, recomputed_since_begin_, {}});
  }
  if (step <= base) return absl::OkStatus();
  if (trainer_.is_evaluated(step)) RETURN_IF_ERROR(run_evaluation(step));
  // Of the closings, too: where they have begun, this rank has saved before, and the files may be in use.
  const bool is_newest = records_.newest() < verdict_commit(Step(step.value + 1));
  if (is_newest && trainer_.is_saved(step)) {
    fault_point("step/save");
    RETURN_IF_ERROR(trainer_.save());
  }
  return absl::OkStatus();
}

absl::Status Member::run_evaluation(Step step) {
  const Commit commit = evaluation_commit(step);
  Findings findings;
  if (!records_.find(commit)) {
    exchange_.begin(commit);
    ASSIGN_OR_RETURN(findings, trainer_.evaluate(exchange_));
    exchange_.finish();
    const std::lock_guard lock(mutex_);
    ++work_.evaluations;
  }
  ASSIGN_OR_RETURN(const Record record, agree(commit, findings));
  trainer_.apply_evaluation(record.combined);
  observer_.on_evaluated(record, step);
  return absl::OkStatus();
}

absl::Status Member::train_step() {
  const Commit commit = verdict_commit(Step(trainer_.step().value + 1));
  const bool again = records_.newest() >= commit;
  if (again) fault_point("catch_up/step");
  {
    const std::lock_guard lock(mutex_);
    ++work_.steps_trained;
    if (again) ++work_.steps_recomputed;
  }
  if (again) {
    ++recomputed_since_begin_;
    control_.send(Milestone{gate_.newest_view(), rank_, Milestone::Kind::kStepAgain, recomputed_since_begin_, {}});
  }
  exchange_.begin(commit);
  ASSIGN_OR_RETURN(const Findings findings, trainer_.train(active_, exchange_));
  exchange_.finish();
  if (!again && options_.is_protected) RETURN_IF_ERROR(copies_.wait_settled());
  fault_point("step/before_verdict");
  ASSIGN_OR_RETURN(const Record record, agree(commit, findings));
  fault_point("step/after_verdict");
  RETURN_IF_ERROR(trainer_.apply(record.combined, active_, [this](int op) { return copies_.wait_read(op); }));
  ordering_.add_step(trainer_.expert_loads());
  fault_point("step/updated");
  if (!again) free_what_is_old(record);
  observer_.on_step(record, trainer_.step());
  return absl::OkStatus();
}

absl::Status Member::run_closing() {
  for (int64_t index = 0;; ++index) {
    const Commit commit = closing_commit(trainer_.step(), index);
    Findings findings;
    if (!records_.find(commit)) {
      ASSIGN_OR_RETURN(findings, trainer_.close());
    }
    ASSIGN_OR_RETURN(const Record record, agree(commit, findings));
    if (trainer_.is_closed(record.combined)) return absl::OkStatus();
  }
}

absl::StatusOr<Record> Member::agree(Commit commit, const Findings& own) {
  View after;
  while (true) {
    if (const auto known = records_.find(commit)) return decode_record(*known);
    ASSIGN_OR_RETURN(const PlanPointer plan, gate_.pass(after));
    if (plan->newest >= commit) {
      RETURN_IF_ERROR(fetch_records(commit, plan->newest));
      continue;
    }
    ASSIGN_OR_RETURN(const Record before, record_of(records_.newest()));
    const bool is_verdict = commit == verdict_commit(step_of(commit)) && !trainer_.is_finished();
    const bool ends_window = is_verdict && before.rule.is_first_of_window(step_of(commit));
    Findings findings = own;
    findings.minima.push_back(options_.is_protected ? copies_.complete_window().value : -1);
    findings.minima.push_back(ends_window ? -options_.wanted_slots(ordering_) : 0);
    findings.minima.push_back(options_.slots_max);
    const absl::Status status = agree_in_view(*plan, findings);
    after = plan->view;
    if (!status.ok()) {
      report_trouble(plan->view, annotate(status, absl::StrCat("commit ", commit.value)), false);
      continue;
    }
    fault_point("commit/reduced");
    Record record;
    const auto slots_max = static_cast<int>(findings.minima.back());
    findings.minima.pop_back();
    const int wanted_slots = std::min(static_cast<int>(-findings.minima.back()), slots_max);
    findings.minima.pop_back();
    record.complete_window = std::max(before.complete_window, Step(findings.minima.back()));
    findings.minima.pop_back();
    record.rule = ends_window ? next_rule(before.rule, step_of(commit), wanted_slots) : before.rule;
    record.combined = std::move(findings);
    absl::Status kept;
    if (gate_.accept(plan->view, [&] { kept = records_.put(commit, encode(record)); })) {
      RETURN_IF_ERROR(kept);
      recovery_ = 0;
      control_.send(Progress{plan->view, rank_, commit, record.complete_window, log_.bytes(), store_.bytes()});
      return record;
    }
  }
}

absl::Status Member::agree_in_view(const Plan& plan, Findings& findings) {
  if (world_.view() != plan.view) world_.restart(plan.view);
  RETURN_IF_ERROR(world_.all_reduce<double>(findings.sums, ReduceOp::kSum));
  return world_.all_reduce<int64_t>(findings.minima, ReduceOp::kMin);
}

void Member::follow_rule(const WindowRule& rule) {
  if (schedule_.rule() != rule) schedule_ = CaptureSchedule(rule, ordering_.slots_of_operators(rule.slots));
}

void Member::begin_order(const WindowRule& rule) {
  ordering_.clear();
  schedule_ = CaptureSchedule(rule, ordering_.slots_of_operators(rule.slots));
}

void Member::begin_window(Step step) {
  const auto why = ordering_.begin_window();
  if (!why) return;
  schedule_ = CaptureSchedule(schedule_.rule(), ordering_.slots_of_operators(schedule_.slots()));
  {
    const std::lock_guard lock(mutex_);
    ++work_.reorderings;
  }
  observer_.on_reordered(step, *why);
}

absl::StatusOr<Record> Member::record_of(Commit commit) const {
  const auto bytes = records_.find(commit);
  CHECK(bytes) << "no record of commit " << commit;
  return decode_record(*bytes);
}

// Nobody will go back further than the newest window that everybody has: who lacks this record gets it
// with the next view, before anything else.
void Member::free_what_is_old(const Record& record) {
  const Step window = record.complete_window;
  if (window < Step(0)) return;
  trainer_.forget_base();  // whoever goes back does so to a window
  const Commit commit = verdict_commit(window);
  store_.free_before(window);
  copies_.forget_before(window);
  records_.free_before(commit);
  log_.free_before(Commit(commit.value + 1));
  received_.free_before(Commit(commit.value + 1));
}

}  // namespace evermoe
