#include "control/controller/relay/run_history.h"

#include <utility>

namespace evermoe {

RecoveryNote shifted(RecoveryNote note, absl::Duration by) {
  RecoveryRecord& record = note.record;
  for (absl::Duration* moment : {&record.noticed, &record.planned, &record.restored,
                                 &record.caught_up, &record.verified, &record.resumed}) {
    *moment += by;
  }
  note.failed += by;
  return note;
}

MoveNote shifted(MoveNote note, absl::Duration by) {
  MoveRecord& record = note.record;
  for (absl::Duration* moment : {&record.asked, &record.warm, &record.stopped, &record.handed_over,
                                 &record.planned, &record.restored, &record.resumed}) {
    *moment += by;
  }
  return note;
}

std::vector<MoveNote> RunHistory::note(const std::vector<MoveRecord>& records, int64_t changes) {
  if (changes == std::exchange(move_changes_, changes)) return {};
  const size_t first = moves_.empty() ? 0 : moves_.size() - 1;
  moves_.resize(records.size());
  for (size_t i = first; i < records.size(); ++i) moves_[i] = {static_cast<int>(i), records[i]};
  return {moves_.begin() + static_cast<std::ptrdiff_t>(first), moves_.end()};
}

std::optional<RecoveryNote> RunHistory::note(const std::vector<RecoveryRecord>& records,
                                             int64_t changes, absl::Duration failed) {
  if (records.empty() || changes == std::exchange(changes_, changes)) return std::nullopt;
  RecoveryNote note{static_cast<int>(records.size()) - 1, failed, records.back()};
  if (recoveries_.size() == records.size()) {
    note.failed = recoveries_.back().failed;
    recoveries_.back() = note;
  } else {
    recoveries_.push_back(note);
  }
  return note;
}

void RunHistory::keep(ControlMessage message) {
  const bool is_told_anyway = std::holds_alternative<RecoveryNote>(message) ||
                              std::holds_alternative<MoveNote>(message) ||
                              std::holds_alternative<RoleProcess>(message);
  if (is_told_anyway) return;
  untold_.push_back(std::move(message));
  if (untold_.size() > kUntoldMax) untold_.pop_front();
}

std::vector<ControlMessage> RunHistory::tell(absl::Duration shift) {
  std::vector<ControlMessage> messages;
  for (const RecoveryNote& note : recoveries_) messages.emplace_back(shifted(note, shift));
  for (const MoveNote& note : moves_) messages.emplace_back(shifted(note, shift));
  for (ControlMessage& message : std::exchange(untold_, {})) messages.push_back(std::move(message));
  return messages;
}

}  // namespace evermoe
