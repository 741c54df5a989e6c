// What a run remembers of its failures and of how the job went on: made of the notes of all
// controllers that it had.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/failure_record.h"
#include "control/wire/control_messages.h"

namespace evermoe {

class RecoveryBook {
 public:
  // `began`: when the run did, by the clock of the notes.
  explicit RecoveryBook(absl::Duration began) : began_(began) {}

  // A note of the controller with that life. Gives the line of the story when the job has gone on.
  std::optional<std::string> on_note(int64_t life, const RecoveryNote& note);
  void on_controller_end(absl::Duration now, const std::string& how, Step step);
  // A worker goes on from this state, with all others. A controller that ended while all started
  // again has not told where they did.
  void on_ready(Step step);

  // In the order in which they were noticed.
  std::vector<FailureRecord> failures() const;
  int restarts() const;  // of all workers

 private:
  struct Entry {
    absl::Duration noticed;
    FailureRecord failure;
    std::optional<Step> ready;  // of all, while they started again
  };
  FailureRecord failure_of(const RecoveryNote& note) const;
  static void fill_in(Entry& entry);

  const absl::Duration began_;
  std::vector<Entry> entries_;
  std::map<std::pair<int64_t, int>, size_t> places_;  // of a note, by life and index
};

}  // namespace evermoe
