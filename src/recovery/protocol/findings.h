// What ranks contribute to a commit and what the job makes of it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "base/ids.h"
#include "protection/logs/record_log.h"
#include "protection/schedule/capture_schedule.h"

namespace evermoe {

// The lengths are the same on every rank and at every commit of one trainer.
struct Findings {
  std::vector<double> sums;
  std::vector<int64_t> minima;
  friend bool operator==(const Findings&, const Findings&) = default;
};

// Sums and minima of both. An empty `whole` stands for none so far.
void combine(const Findings& part, Findings& whole);

// What tells the states of a run, from one resume() of the whole job to the next, from those of
// other runs: the same step may have other bits there. A process that takes a lost one's place may
// meet files of such runs on its machine.
struct RunOrigin {
  View view;  // in which all resumed
  // LocalSave::origin (checkpoint/tiers/local_saves.h) of what they read from their own disks;
  // zero: they read what all ranks see, or began.
  Fingerprint own_saves;
  friend bool operator==(const RunOrigin&, const RunOrigin&) = default;
};

// A commit's outcome, equal on every rank.
struct Record {
  Findings combined;
  Step state{-1};            // in force from this commit on
  Step complete_window{-1};  // newest window that every rank had complete; -1 for none
  WindowRule rule;           // of the windows from the state that this commit leads to
  RunOrigin run;
  friend bool operator==(const Record&, const Record&) = default;
};

// The rule after the commit that leads to `state`. It changes only where a window begins, to the
// largest number of slots that any rank wants (0: no rank wants another). Periods longer than the
// slots stay.
WindowRule next_rule(const WindowRule& before, Step state, int wanted_slots);

// The rule after the commit that leads to a state at which operators come to other lanes: a window
// begins there, and the one under way is never complete.
WindowRule rule_after_change(const WindowRule& before, Step state, int wanted_slots);

RecordBytes encode(const Record& record);
absl::StatusOr<Record> decode_record(const RecordBytes& bytes);  // Corrupt

}  // namespace evermoe
