#include "recovery/member/train/rank_program.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/fault_point.h"

namespace evermoe {
namespace {

// What a new view can repair. Everything else ends the process.
bool is_repairable(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

Step after(Step step) { return Step(step.value + 1); }

}  // namespace

absl::Status RankProgram::run() {
  while (true) {
    ASSIGN_OR_RETURN(const PlanPointer plan, in_.views.next_start());
    if (plan == nullptr) return absl::OkStatus();
    in_.observer.on_computing(false);
    absl::Status status = begin(*plan);
    in_.observer.on_computing(true);
    if (status.ok()) status = play();
    if (status.ok()) {
      in_.views.set_finished();
      in_.control.send(Finished{in_.rank, in_.trainer.step()});
      continue;  // others may still need what this member holds, or its stage may have to go back
    }
    in_.exchange.finish();
    if (!is_repairable(status)) return status;
    in_.troubles.report_inside_stage(in_.views.newest_view(), status);
  }
}

absl::Status RankProgram::begin(const Plan& plan) {
  in_.counts.add_one(&MemberWork::restarts);
  in_.timer.leave_out();
  fault_point("recovery/plan");
  recomputed_since_begin_ = 0;
  if (plan.restart_all) return resume(plan);
  free_messages(plan);
  RETURN_IF_ERROR(in_.restorer.begin(plan));
  if (!in_.restorer.has_kept_state()) done_ = {.state = in_.trainer.step()};
  if (in_.trainer.step() == done_.state) return absl::OkStatus();
  // It was lost, or sent back, between an update and what follows.
  ASSIGN_OR_RETURN(const Record record, in_.commits.record_of(verdict_commit(in_.trainer.step())));
  tell_step(record);
  return absl::OkStatus();
}

// The log is made for three steps, and messages are about to be sent again.
void RankProgram::free_messages(const Plan& plan) {
  const Strategy& strategy = in_.options.strategy;
  if (strategy.log() != LogReach::kStep) return;
  // All stages send everything again, and there is no room for both. Fingerprints of what was
  // received remain, to prove what is computed again.
  if (strategy.restore == Restore::kEverybody) return in_.memory.log.forget_messages();
  // Nobody asks for older ones: all stages are at this state, or come to it by updates.
  in_.memory.log.free_before(verdict_commit(plan.state));
}

absl::Status RankProgram::resume(const Plan& plan) {
  in_.copies.abandon();
  in_.copies.clear();
  in_.memory.clear_boundaries_and_snapshots();
  in_.memory.records.clear();
  in_.restorer.begin_run();
  done_ = {};
  in_.trainer.join_stage(plan.view);
  in_.trainer.take_membership(Membership(in_.topology, resting_at(plan.membership, Step(0))));
  in_.window.on_moved();
  Communicator& world = in_.commits.world_in(plan.view);
  // Nobody's new copies may come before everybody has thrown away the old ones.
  RETURN_IF_ERROR(annotate(world.barrier(), "resuming"));
  ASSIGN_OR_RETURN(const std::string source, in_.trainer.resume(world));
  const Step base = in_.trainer.step();
  Record first{.state = base, .run = in_.trainer.run_origin()};
  const CaptureRule& captures = in_.options.strategy.captures;
  const int slots = std::min(captures.slots, captures.slots_max);
  ASSIGN_OR_RETURN(first.rule, in_.commits.first_rule(base, slots, captures.period));
  in_.window.begin_run(first.rule);
  RETURN_IF_ERROR(in_.memory.records.put(verdict_commit(base), encode(first)));
  in_.views.set_base(base);
  done_.state = base;
  if (!in_.options.strategy.keeps_copies()) in_.trainer.forget_base();
  in_.control.send(Milestone{plan.view, in_.rank, Milestone::Kind::kRestored, 0, {source}, base});
  in_.observer.on_resumed(base, source);
  return absl::OkStatus();
}

absl::Status RankProgram::play() {
  while (true) {
    RETURN_IF_ERROR(arrive());
    if (in_.trainer.is_finished()) return close();
    RETURN_IF_ERROR(in_.gradients.is_behind() ? update() : step());
  }
}

absl::Status RankProgram::arrive() {
  if (in_.restorer.is_restoring()) RETURN_IF_ERROR(in_.restorer.restore_next_slot());
  if (!in_.gradients.is_behind()) RETURN_IF_ERROR(in_.gradients.complete());
  const Step step = in_.trainer.step();
  RETURN_IF_ERROR(change_lanes(step));
  RETURN_IF_ERROR(move_experts(step));
  if (in_.options.strategy.keeps_copies()) {
    ASSIGN_OR_RETURN(const Record here, in_.commits.record_of(verdict_commit(step)));
    in_.window.follow(here.rule);
  }
  if (!in_.restorer.is_restoring()) RETURN_IF_ERROR(in_.restorer.on_dense_state());
  in_.views.set_updated();
  if (!in_.restorer.is_restoring()) {
    if (in_.options.strategy.keeps_copies()) RETURN_IF_ERROR(protect(step));
    tell_caught_up(step);
  }
  if (step <= in_.views.standing().base) return absl::OkStatus();
  if (in_.trainer.is_evaluated(step) && done_.evaluated != step) RETURN_IF_ERROR(evaluate(step));
  return save_if_due(step);
}

absl::Status RankProgram::change_lanes(Step step) {
  if (in_.gradients.is_behind()) return absl::OkStatus();
  const RestingRoles& now = in_.trainer.membership().resting();
  if (resting_at(in_.views.plan()->membership, step) == now) return absl::OkStatus();
  // By a plan that does not send this rank elsewhere.
  ASSIGN_OR_RETURN(const PlanPointer plan, in_.views.pass());
  const Membership due(in_.topology, resting_at(plan->membership, step));
  if (in_.trainer.membership() == due) return absl::OkStatus();
  in_.timer.leave_out();
  CHECK(!in_.restorer.is_restoring()) << "lanes change inside a window, at " << step;
  in_.restorer.on_changing_lanes();
  // What is being captured is about to move.
  if (in_.options.strategy.keeps_copies()) RETURN_IF_ERROR(in_.copies.wait_settled());
  RETURN_IF_ERROR(free_cut_windows(step));
  fault_point("lanes/change");
  const bool rested = rests();
  RecordBytes position = in_.window.position();
  RETURN_IF_ERROR(
      annotate(in_.trainer.change_membership(due, view_at(plan->membership, step), position),
               "changing lanes"));
  in_.window.on_moved();
  in_.hand_over.on_moved();
  if (rested && !rests()) RETURN_IF_ERROR(in_.window.take_position(position));
  fault_point("lanes/changed");
  return absl::OkStatus();
}

// What is captured there may be about to move, in this stage or in another one, and windows of all
// begin anew.
absl::Status RankProgram::move_experts(Step step) {
  if (in_.gradients.is_behind() || !in_.trainer.may_move_experts(step)) return absl::OkStatus();
  if (in_.restorer.is_restoring()) {
    // The window that begins here was captured after they had moved.
    CHECK(in_.window.schedule().rule().is_first_of_window(step)) << "inside a window, at " << step;
    return absl::OkStatus();
  }
  if (in_.options.strategy.keeps_copies()) RETURN_IF_ERROR(in_.copies.wait_settled());
  RETURN_IF_ERROR(free_cut_windows(step));
  in_.timer.leave_out();
  if (!in_.trainer.moves_experts()) return in_.trainer.move_experts();
  in_.restorer.on_changing_lanes();
  fault_point("experts/move");
  RETURN_IF_ERROR(annotate(in_.trainer.move_experts(), "moving experts"));
  in_.window.on_moved();
  in_.hand_over.on_moved();
  fault_point("experts/moved");
  return absl::OkStatus();
}

// Where gradients are kept they lead from the complete window to this state.
absl::Status RankProgram::free_cut_windows(Step step) {
  const Strategy& strategy = in_.options.strategy;
  if (!strategy.keeps_copies() || strategy.keeps_gradients()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Record here, in_.commits.record_of(verdict_commit(step)));
  in_.memory.free_cut_windows(here.complete_window, step);
  in_.copies.forget_between(here.complete_window, step);
  return absl::OkStatus();
}

// A role that stops here captures nothing any more: who takes it does.
absl::Status RankProgram::protect(Step step) {
  RETURN_IF_ERROR(in_.hand_over.stop_if_due(step));
  RETURN_IF_ERROR(capture(step));
  return in_.hand_over.give_ahead(step);
}

absl::Status RankProgram::capture(Step step) {
  if (rests()) return absl::OkStatus();
  if (in_.window.schedule().rule().is_first_of_window(step)) {
    if (const auto why = in_.window.begin_window()) {
      in_.counts.add_one(&MemberWork::reorderings);
      in_.observer.on_reordered(step, *why);
    }
  }
  const auto time = in_.window.schedule().time_of(step);
  if (!time || in_.memory.store.has_slot(in_.rank, *time)) return absl::OkStatus();
  return in_.copies.capture(*time, in_.window.position());
}

// Once in every view by which this rank's stage began.
void RankProgram::tell_caught_up(Step step) {
  const bool catches_up = !in_.trainer.is_finished() && is_known(after(step));
  const View view = in_.views.newest_view();
  if (catches_up || announced_ >= in_.views.standing().stage_epoch) return;
  announced_ = view;
  in_.control.send(
      Milestone{view, in_.rank, Milestone::Kind::kCaughtUp, recomputed_since_begin_, {}});
}

absl::Status RankProgram::evaluate(Step step) {
  in_.timer.leave_out();
  Record whole;
  Findings findings;
  for (int64_t batch = 0; batch < in_.trainer.evaluation_batches(); ++batch) {
    ASSIGN_OR_RETURN(whole, evaluate_batch(evaluation_commit(step, batch), batch));
    combine(whole.combined, findings);
  }
  whole.combined = std::move(findings);
  in_.trainer.apply_evaluation(whole.combined);
  done_.evaluated = step;
  in_.observer.on_evaluated(whole, step);
  return absl::OkStatus();
}

absl::StatusOr<Record> RankProgram::evaluate_batch(Commit commit, int64_t batch) {
  Findings findings;
  if (!in_.memory.records.find(commit)) {
    in_.exchange.begin(commit);
    ASSIGN_OR_RETURN(findings, in_.trainer.evaluate(batch, in_.exchange));
    in_.exchange.finish();
    in_.counts.add_one(&MemberWork::evaluations);
    fault_point("evaluate/batch");
  }
  ASSIGN_OR_RETURN(Record record,
                   in_.commits.agree(commit, CommitAgreement::Kind::kOther, findings));
  in_.memory.free_evaluated(commit);
  return record;
}

absl::Status RankProgram::save_if_due(Step step) {
  // Where closings have begun, too, this rank has saved before, and the files may be in use.
  if (is_known(after(step)) || !in_.trainer.is_saved(step)) return absl::OkStatus();
  in_.timer.leave_out();
  fault_point("step/save");
  return in_.trainer.save();
}

void RankProgram::count_step(bool again) {
  in_.counts.add_one(&MemberWork::steps_trained);
  if (!again) return;
  in_.counts.add_one(&MemberWork::steps_recomputed);
  ++recomputed_since_begin_;
  in_.control.send(Milestone{
      in_.views.newest_view(), in_.rank, Milestone::Kind::kStepAgain, recomputed_since_begin_, {}});
}

absl::Status RankProgram::step() {
  const Step begin = in_.trainer.step();
  const Commit commit = verdict_commit(after(begin));
  const bool again = in_.commits.is_known(commit);
  if (again) fault_point("catch_up/step");
  count_step(again);
  if (!again) {
    RETURN_IF_ERROR(begin_gradients(begin));
    RETURN_IF_ERROR(in_.hand_over.begin_step(begin));
  }
  in_.exchange.begin(commit);
  ASSIGN_OR_RETURN(const Findings findings,
                   in_.trainer.train(in_.restorer.active(), in_.exchange,
                                     [this](int op) { in_.copies.on_reduced(op); }));
  in_.exchange.finish();
  if (!again && waits_for_copies(after(begin))) RETURN_IF_ERROR(in_.copies.wait_settled());
  fault_point("step/before_verdict");
  const View view = in_.views.newest_view();
  if (!again && !rests()) in_.timer.end(after(begin), view, in_.trainer.work());
  ASSIGN_OR_RETURN(const Record record,
                   in_.commits.agree(commit, CommitAgreement::Kind::kStep, findings));
  in_.timer.begin(view);
  fault_point("step/after_verdict");
  RETURN_IF_ERROR(in_.trainer.apply(record.combined, in_.restorer.active(),
                                    [this](int op) { return in_.copies.wait_read(op); }));
  // Windows of one slot have no order, and an update that is made again has counted nothing.
  if (!in_.options.strategy.keeps_gradients()) in_.window.add_step(in_.trainer.expert_loads());
  fault_point("step/updated");
  // Neighbours are at most a step behind.
  if (in_.options.strategy.log() == LogReach::kStep) in_.memory.log.free_before(commit);
  if (!again) RETURN_IF_ERROR(free_what_is_old(begin, record));
  tell_step(record);
  return absl::OkStatus();
}

// With this verdict everybody has to know of the windows so far, or there would be three at once.
bool RankProgram::waits_for_copies(Step next) const {
  const Strategy& strategy = in_.options.strategy;
  if (!strategy.keeps_copies()) return false;
  return !strategy.sends_in_gaps || in_.window.schedule().rule().is_first_of_window(next);
}

absl::Status RankProgram::begin_gradients(Step begin) {
  if (!in_.options.strategy.keeps_gradients() || rests()) return absl::OkStatus();
  const SlotTime time = in_.window.schedule().gradients_of(begin);
  if (in_.memory.store.has_slot(in_.rank, time)) return absl::OkStatus();
  return in_.copies.begin_gradients(time, in_.window.position());
}

absl::Status RankProgram::update() {
  ASSIGN_OR_RETURN(const Record record, in_.gradients.update());
  // Many updates may take longer than the longest step; to the controller they are movement.
  in_.control.send(Milestone{in_.views.newest_view(), in_.rank, Milestone::Kind::kCopying, 0, {}});
  tell_step(record);
  return absl::OkStatus();
}

void RankProgram::tell_step(const Record& record) {
  done_.state = in_.trainer.step();
  // The first rank writes metrics.
  in_.timer.set_aside([&] { in_.observer.on_step(record, in_.trainer.step()); });
}

absl::Status RankProgram::close() {
  for (int64_t index = 0;; ++index) {
    const Commit commit = closing_commit(in_.trainer.step(), index);
    Findings findings;
    if (!in_.memory.records.find(commit)) {
      ASSIGN_OR_RETURN(findings, in_.trainer.close());
      fault_point("close/saved");
    }
    ASSIGN_OR_RETURN(const Record record,
                     in_.commits.agree(commit, CommitAgreement::Kind::kOther, findings));
    if (in_.trainer.is_closed(record.combined)) return absl::OkStatus();
  }
}

// Whoever goes back does so to a window, once all know of one. What they certainly know is the
// record before: ranks that have this one may take it with them, and then what they have freed of
// their memory is lost with them anyway, but the base is on a disk that all share.
absl::Status RankProgram::free_what_is_old(Step begin, const Record& record) {
  if (!in_.options.strategy.keeps_copies()) {
    // Nobody goes back in memory, but others may be a step behind.
    in_.memory.free_before(begin);
    return absl::OkStatus();
  }
  if (record.complete_window < Step(0)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Record before, in_.commits.record_of(verdict_commit(begin)));
  if (before.complete_window >= Step(0)) in_.trainer.forget_base();
  in_.memory.free_before(record.complete_window);
  in_.copies.forget_before(record.complete_window);
  return absl::OkStatus();
}

}  // namespace evermoe
