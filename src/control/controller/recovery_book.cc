#include "control/controller/recovery_book.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace evermoe {
namespace {

bool has_come(absl::Duration moment) { return moment < absl::InfiniteDuration(); }

std::optional<double> seconds_between(absl::Duration from, absl::Duration to) {
  if (!has_come(from) || !has_come(to)) return std::nullopt;
  return std::max(0.0, absl::ToDoubleSeconds(to - from));
}

LocalRecovery recovery_of(const RecoveryNote& note) {
  const RecoveryRecord& record = note.record;
  LocalRecovery recovery;
  recovery.causes = record.causes;
  recovery.standby_roles = record.standby_roles;
  recovery.rolled_back_stages = record.rolled_back_stages;
  recovery.recomputed_steps = record.recomputed_steps;
  recovery.survivor_recomputed_steps = record.survivor_recomputed_steps;
  recovery.sources = record.sources;
  recovery.restarted_all = record.restarted_all;
  recovery.restarts = record.restarts;
  recovery.detect = seconds_between(note.failed, record.noticed);
  recovery.view = seconds_between(note.failed, record.planned);
  recovery.load = seconds_between(note.failed, record.restored);
  recovery.catch_up = seconds_between(note.failed, record.caught_up);
  recovery.verify = seconds_between(note.failed, record.verified);
  recovery.resume = seconds_between(note.failed, record.resumed);
  return recovery;
}

// "killed by signal 9 (Killed)" for one role; for several each with its name.
std::string kind_of(const RecoveryRecord& record) {
  if (record.causes.size() != 1 || record.roles.size() != 1)
    return absl::StrJoin(record.causes, "; ");
  return std::string(absl::StripPrefix(record.causes[0], record.roles[0] + ": "));
}

}  // namespace

FailureRecord RecoveryBook::failure_of(const RecoveryNote& note) const {
  const RecoveryRecord& record = note.record;
  FailureRecord failure;
  failure.incident = record.incident;
  failure.roles = record.roles;
  failure.kind = kind_of(record);
  failure.step = record.step;
  if (record.restarted_all && record.restarted_from >= Step(0))
    failure.restarted_from_step = record.restarted_from;
  failure.recovery = recovery_of(note);
  failure.seconds_lost = failure.recovery->resume.value_or(0);
  const std::pair<absl::Duration, const char*> moments[] = {
      {note.failed, "failed"},       {record.noticed, "noticed"},     {record.planned, "planned"},
      {record.restored, "restored"}, {record.caught_up, "caught up"}, {record.verified, "verified"},
      {record.resumed, "resumed"}};
  for (const auto& [moment, what] : moments) {
    if (has_come(moment))
      failure.timeline.push_back({absl::ToDoubleSeconds(moment - began_), what});
  }
  return failure;
}

std::optional<std::string> RecoveryBook::on_note(int64_t life, const RecoveryNote& note) {
  const auto [place, is_new] = places_.try_emplace({life, note.index}, entries_.size());
  if (is_new) entries_.push_back({note.record.noticed, {}});
  Entry& entry = entries_[place->second];
  FailureRecord& failure = entry.failure;
  const bool was_over = failure.recovery && failure.recovery->resume;
  failure = failure_of(note);
  fill_in(entry);
  if (was_over || !failure.recovery->resume) return std::nullopt;
  return in_incident(failure.incident,
                     absl::StrCat("recovered from the failure at step ", failure.step.value, ": ",
                                  to_text(*failure.recovery)));
}

void RecoveryBook::fill_in(Entry& entry) {
  FailureRecord& failure = entry.failure;
  if (failure.recovery && failure.recovery->restarted_all && !failure.restarted_from_step)
    failure.restarted_from_step = entry.ready;
}

void RecoveryBook::on_ready(Step step) {
  const auto is_restart = [](const Entry& entry) {
    const auto& recovery = entry.failure.recovery;
    return recovery && recovery->restarted_all && !recovery->resume;
  };
  const auto newest = std::find_if(entries_.rbegin(), entries_.rend(), is_restart);
  if (newest == entries_.rend()) return;
  newest->ready = step;
  fill_in(*newest);
}

void RecoveryBook::on_controller_end(absl::Duration now, const std::string& how, Step step) {
  FailureRecord failure;
  failure.roles = {"controller"};
  failure.kind = how;
  failure.step = step;
  failure.timeline.push_back({absl::ToDoubleSeconds(now - began_), "noticed"});
  entries_.push_back({now, std::move(failure)});
}

std::vector<FailureRecord> RecoveryBook::failures() const {
  std::vector<Entry> entries = entries_;
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.noticed < b.noticed; });
  std::vector<FailureRecord> failures;
  for (Entry& entry : entries) failures.push_back(std::move(entry.failure));
  return failures;
}

int RecoveryBook::restarts() const {
  int restarts = 0;
  for (const Entry& entry : entries_)
    restarts += entry.failure.recovery ? entry.failure.recovery->restarts : 0;
  return restarts;
}

}  // namespace evermoe
