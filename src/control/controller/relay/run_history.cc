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
  if (std::holds_alternative<RecoveryNote>(message) || std::holds_alternative<RoleProcess>(message))
    return;
  untold_.push_back(std::move(message));
  if (untold_.size() > kUntoldMax) untold_.pop_front();
}

std::vector<ControlMessage> RunHistory::tell(absl::Duration shift) {
  std::vector<ControlMessage> messages;
  for (const RecoveryNote& note : recoveries_) messages.emplace_back(shifted(note, shift));
  for (ControlMessage& message : std::exchange(untold_, {})) messages.push_back(std::move(message));
  return messages;
}

}  // namespace evermoe
