#include "control/launch/run_story.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/folder/job_folder.h"
#include "control/folder/workers_file.h"
#include "control/launch/move_summary.h"
#include "control/launch/run_outcome.h"
#include "control/launch/run_summary.h"

namespace evermoe {
namespace {

// Something that was found slow, or the end of that.
template <typename Record, typename IsSame>
void note(std::vector<Record>& all, Record found, bool is_over, const IsSame& is_same) {
  if (!is_over) return all.push_back(std::move(found));
  const auto known = std::find_if(all.rbegin(), all.rend(),
                                  [&](const Record& one) { return is_same(one, found); });
  if (known != all.rend()) known->until = found.step;
}

}  // namespace

RunStory::RunStory(Files& files, const ProtectedRunOptions& options, RunObserver& observer,
                   absl::Duration began)
    : files_(files),
      options_(options),
      began_(began),
      observer_(observer),
      topology_(options.controller.lanes, std::ssize(options.controller.lanes)),
      book_(began),
      former_(options.term.hosts_before > 0 ? read_history(files, options.out, options.term.job)
                                            : JobHistory()),
      lanes_(former_.membership),
      moves_(former_.moves),
      stragglers_(former_.stragglers),
      slow_links_(former_.slow_links) {}

std::string RunStory::name_of(Rank rank) const {
  if (rank.value >= topology_.world_size()) return absl::StrCat("rank ", rank.value);
  return topology_.name_of(rank);
}

bool RunStory::hear(absl::Duration now, const WorkerReport& report) {
  using Kind = WorkerReport::Kind;
  if (report.kind == Kind::kFinished) drained_ = report.drained;
  if (report.kind == Kind::kReady) {
    book_.on_ready(report.step);
    begin_from(report);
  }
  if (report.kind == Kind::kExpertsMoved && report.move) note_move(*report.move);
  const bool is_new = report.kind == Kind::kStep && report.step > newest_;
  if (is_new) newest_ = report.step;
  if (const auto line = save_troubles_.on_report(now, name_of(report.rank), report)) say(*line);
  observer_.on_report(report);
  return is_new;
}

void RunStory::hear(LanesChanged change) {
  if (lanes_.on_change(std::move(change))) hand_on();
}

// Whoever has gone back tells of it again.
void RunStory::note_move(const ExpertMove& move) {
  if (std::ranges::count(moves_, move.step, &ExpertMove::step) > 0) return;
  moves_.push_back(move);
  say("experts move at " + to_text(move));
  hand_on();
}

// All go on from a checkpoint: what was after it has not been.
void RunStory::begin_from(const WorkerReport& ready) {
  const size_t gone =
      std::erase_if(moves_, [&](const ExpertMove& move) { return move.step > ready.step; });
  if (lanes_.on_resumed(ready.step, ready.trained_on) || gone > 0) hand_on();
}

// The controller has told of it in words.
void RunStory::hear(const StragglerFound& found) {
  note(stragglers_, {name_of(found.rank), found.node, found.factor, found.step}, found.is_over,
       [](const auto& a, const auto& b) { return a.role == b.role; });
  hand_on();
}

// Likewise.
void RunStory::hear(const SlowLinkFound& found) {
  note(slow_links_, {found.from, found.to, found.factor, found.step}, found.is_over,
       [](const auto& a, const auto& b) { return a.from == b.from && a.to == b.to; });
  hand_on();
}

void RunStory::hear(const WorkerLogTail& words) {
  observer_.on_log(name_of(words.rank), words.path, words.lines);
}

void RunStory::hear(const RoleProcess& process) {
  if (process.pid == 0)
    workers_.erase(name_of(process.rank));
  else
    workers_[name_of(process.rank)] = process.pid;
}

void RunStory::hear(int64_t life, const RecoveryNote& note) {
  const auto line = book_.on_note(life, note);
  if (!line) return;
  say(*line);
  hand_on();
}

// The controller has told of it in words.
void RunStory::hear(int64_t life, const MoveNote& note) {
  const MoveRecord& move = role_moves_[{life, note.index}] = since(began_, note.record);
  if (has_ended(move)) hand_on();
}

// To the next host, if there will be one, when something is over: a controller that ends because
// another host has its place is no failure of the job. Who is none any more has nothing to add.
void RunStory::hand_on() {
  if (options_.term.job.empty() || !check_term(files_, options_.out, options_.term).ok()) return;
  RunOutcome now = history();
  // Of a move that goes on the next host hears only if it ends with it.
  std::erase_if(now.role_moves, [](const MoveRecord& move) { return !has_ended(move); });
  const absl::Status status = write_history(files_, options_.out, options_.term.job,
                                            {now.failures, now.restarts, now.membership, now.moves,
                                             now.role_moves, now.stragglers, now.slow_links});
  if (!status.ok() && !is_history_broken_) say(absl::StrCat("warning: ", status.message()));
  is_history_broken_ = !status.ok();
}

void RunStory::on_controller_end(absl::Duration now, const std::string& how) {
  book_.on_controller_end(now, how, newest_);
}

std::optional<pid_t> RunStory::worker(const std::string& role) const {
  const auto found = workers_.find(role);
  return found == workers_.end() ? std::nullopt : std::optional(found->second);
}

void RunStory::write_processes(const std::map<std::string, pid_t>& control,
                               const std::string& address) {
  absl::Status status =
      write_workers_file(files_, join_path(options_.out, "workers.json"), workers_);
  status.Update(write_workers_file(files_, join_path(options_.out, "control.json"), control));
  status.Update(write_controller_file(files_, controller_file(options_.out), address));
  if (!status.ok() && !are_files_broken_) say(absl::StrCat("warning: ", status.message()));
  are_files_broken_ = !status.ok();
}

RunOutcome RunStory::history() const {
  RunOutcome outcome;
  outcome.steps = newest_;
  outcome.failures = former_.failures;
  for (FailureRecord& failure : book_.failures()) outcome.failures.push_back(std::move(failure));
  outcome.restarts = former_.restarts + book_.restarts();
  outcome.membership = lanes_.changes();
  outcome.moves = moves_;
  outcome.role_moves = former_.role_moves;
  for (const auto& [number, move] : role_moves_) outcome.role_moves.push_back(move);
  outcome.stragglers = stragglers_;
  outcome.slow_links = slow_links_;
  return outcome;
}

RunOutcome RunStory::outcome(int exit_code, const std::string& reason) const {
  RunOutcome outcome = history();
  outcome.exit_code = exit_code;
  outcome.reason = reason;
  return outcome;
}

RunOutcome RunStory::taken_over(const std::string& why) const {
  RunOutcome outcome = history();
  outcome.status = RunStatus::kTakenOver;
  outcome.exit_code = 0;
  outcome.reason = why;
  return outcome;
}

RunOutcome RunStory::outcome(const EndJob& end) const {
  if (!end.ok) {
    const int failed = end.is_hopeless ? kExitHopeless : kExitFailed;
    return outcome(end.bad_input ? kExitBadInput : failed, end.reason);
  }
  RunOutcome outcome = history();
  outcome.exit_code = 0;
  const bool is_drained = drained_ || end.is_drained;
  outcome.status = is_drained ? RunStatus::kDrained : RunStatus::kFinished;
  outcome.reason = is_drained ? "stopped before the last step because it was asked to"
                              : absl::StrCat("all ", options_.steps.value, " steps are done");
  return outcome;
}

}  // namespace evermoe
