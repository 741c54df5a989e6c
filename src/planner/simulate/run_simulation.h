// A training run on failing nodes, played from event to event.
//
// The job is always in one of three phases: *running* (perhaps on fewer nodes, slower),
// *recovering* (detecting, replacing, loading, catching up) or *waiting* for nodes. Between events
// nothing is counted step by step: years take as long as the failures in them. A failure during a
// recovery starts it again; nodes that are lost together, or before the copies of others are there
// again, may take the last copy of a state with them: then the run goes back to the newest durable
// save, or to the beginning.
//
// Waiting, recovering and the share of speed that is missing are wall time; running time is useful
// work, protection (stalls and overhead) or, if a failure undoes it, rework. So the seconds below
// add up. Of a recovery, detection comes first, then the change of nodes, then loading and catching
// up; one that is cut short ends where it was.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/failures/availability.h"
#include "planner/simulate/run_strategy.h"

namespace evermoe {

struct RunLimits {
  double wall_seconds = std::numeric_limits<double>::infinity();
  int64_t steps = std::numeric_limits<int64_t>::max();  // with their saves
};

struct SimulatedRun {
  double wall_seconds = 0;
  double useful_seconds = 0;      // steps that stayed done, at step_seconds each
  double protection_seconds = 0;  // overhead and stalls of what stayed done
  double rework_seconds = 0;      // running time undone by going back; catch-up counts as recovery
  double recovery_seconds = 0;
  double detection_seconds = 0;  // of the recovery
  double change_seconds =
      0;  // of the recovery: restart, standby, reconfiguration, growth, migration
  double waiting_seconds = 0;
  double shrunk_seconds = 0;  // running time lost through fewer nodes

  int64_t interruptions = 0;  // of the running or recovering job
  int64_t recoveries = 0;     // that came to an end
  int64_t fallbacks = 0;      // to the durable save, because copies were lost
  int64_t migrations = 0;
  int64_t shrinks = 0;
  double lost_steps = 0;  // LOSSY: steps whose tokens experts have lost

  double ettr() const { return wall_seconds > 0 ? useful_seconds / wall_seconds : 0; }
  double restore_seconds() const { return recovery_seconds - detection_seconds - change_seconds; }
  double downtime_seconds() const { return recovery_seconds + waiting_seconds; }
  // The share of the tokens of what stayed done that experts have lost again.
  double lost_share(double step_seconds) const {
    return useful_seconds > 0 ? lost_steps * step_seconds / useful_seconds : 0;
  }
};

// What a run did from one moment to another, for a picture of it.
struct RunSpan {
  enum class Kind : uint8_t {
    kTraining,
    kLost,
    kDetecting,
    kChanging,
    kRestoring,
    kWaiting
  };  // kLost: training that was undone
  Kind kind = Kind::kTraining;
  double begin_seconds = 0;
  double end_seconds = 0;
  friend bool operator==(const RunSpan&, const RunSpan&) = default;
};

// Plays until a limit is reached; `source` is used up as far as needed. At one instant the job's
// own events come before those of the nodes. Deterministic. If the source ends, the run goes on
// undisturbed, or ends where it would wait for ever. `spans`, unless null, gets what the run did,
// without gaps. REQUIRES: at least one limit is finite; saves as the protection needs them.
SimulatedRun simulate_run(const TrainedJob& job, const RunStrategy& strategy,
                          AvailabilitySource& source, const RunLimits& limits,
                          std::vector<RunSpan>* spans = nullptr);

}  // namespace evermoe
