#include "planner/simulate/run_simulation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "planner/simulate/job_places.h"
#include "planner/simulate/run_spans.h"
#include "planner/simulate/surviving_state.h"

namespace evermoe {
namespace {

using Kind = AvailabilityEvent::Kind;

constexpr double kNever = std::numeric_limits<double>::infinity();

enum class Phase : uint8_t { kRunning, kRecovering, kWaiting };

// Why a job stops: a loss, one that it was told of before, or all saved first.
enum class Cause : uint8_t { kLost, kTold, kDrained };

// A recovery under way, in the order of its parts.
struct RecoveryParts {
  double detect = 0;
  double change = 0;   // of nodes
  double restore = 0;  // load and catch up
  double total() const { return detect + change + restore; }
};

class RunSimulation {
 public:
  RunSimulation(const TrainedJob& job, const RunStrategy& strategy, AvailabilitySource& source,
                const RunLimits& limits, std::vector<RunSpan>* spans)
      : job_(job),
        strategy_(strategy),
        source_(source),
        limits_(limits),
        state_(job, strategy),
        places_(job.nodes, source.nodes(), job.racks),
        spans_(spans) {
    std::vector<int> up;
    for (int node = 0; node < source.nodes(); ++node) {
      if (source.up_at_start(node)) up.push_back(node);
    }
    places_.add(up);
    places_.fill();
    state_.note_holders(places_);
    phase_ = can_run() ? Phase::kRunning : Phase::kWaiting;
  }

  SimulatedRun run() {
    std::optional<AvailabilityEvent> event = source_.next();
    for (;;) {
      const double own = own_event();
      const double theirs = event ? event->seconds : kNever;
      const double until = std::min({own, theirs, limits_.wall_seconds});
      if (until == kNever) break;  // waits for ever
      pass(until);
      if (until == limits_.wall_seconds || finished()) break;
      if (own <= theirs) {
        take_own_event();
      } else {
        take(*event);
        event = source_.next();
      }
    }
    return summary();
  }

 private:
  const TrainingClock& clock_rule() const { return state_.clock_rule(); }
  double speed() const { return job_.speed(places_.filled()); }
  bool is_elastic() const { return strategy_.replacement == NodeReplacement::kElastic; }
  bool can_run() const {
    return places_.is_full() || places_.filled() >= job_.nodes_needed(is_elastic());
  }

  // --- Time ---

  double finish() const {
    if (limits_.steps == std::numeric_limits<int64_t>::max()) return kNever;
    return now_ + std::max(0.0, clock_rule().at(limits_.steps) - clock_) / speed();
  }

  double own_event() const {
    if (phase_ == Phase::kRecovering) return recovered_at_;
    if (phase_ == Phase::kRunning) return std::min(finish(), grow_at_);
    return kNever;
  }

  bool finished() const { return phase_ == Phase::kRunning && now_ == finish(); }

  void pass(double until) {
    const double seconds = until - now_;
    if (phase_ == Phase::kRunning) {
      // Not by adding up, where the end of the run is reached: it should be exactly at(steps).
      clock_ = until == finish() ? clock_rule().at(limits_.steps) : clock_ + seconds * speed();
      result_.shrunk_seconds += seconds * (1 - speed());
      spans_.add(RunSpan::Kind::kTraining, until, seconds * speed());
    } else if (phase_ == Phase::kRecovering) {
      result_.recovery_seconds += seconds;
      pass_recovering(seconds);
    } else {
      result_.waiting_seconds += seconds;
      spans_.add(RunSpan::Kind::kWaiting, until);
    }
    now_ = until;
  }

  void pass_recovering(double seconds) {
    const double detected = std::min(seconds, recovery_.detect),
                 changed = std::min(seconds - detected, recovery_.change);
    recovery_.detect -= detected;
    recovery_.change -= changed;
    result_.detection_seconds += detected;
    result_.change_seconds += changed;
    spans_.add(RunSpan::Kind::kDetecting, now_ + detected);
    spans_.add(RunSpan::Kind::kChanging, now_ + detected + changed);
    spans_.add(RunSpan::Kind::kRestoring, now_ + seconds);
  }

  void take_own_event() {
    if (phase_ == Phase::kRecovering) {
      end_recovery();
    } else {
      grow();
    }
  }

  // --- Nodes ---

  void take(const AvailabilityEvent& event) {
    switch (event.kind) {
      case Kind::kUp: return come(event.nodes);
      case Kind::kCrash:
        return interrupt(places_.places_of(event.nodes), places_.spares_among(event.nodes));
      case Kind::kDown: return interrupt(places_.remove(event.nodes), 0);
      case Kind::kAnnounced: return leave(event.nodes);
    }
  }

  void come(std::span<const int> nodes) {
    places_.add(nodes);
    if (phase_ == Phase::kWaiting) recover_if_possible();
    if (phase_ == Phase::kRunning) plan_growth();
  }

  // `cold_spares` crashed at the same time: they are no warm standbys.
  void interrupt(const std::vector<int>& places, int cold_spares) {
    if (places.empty()) return;
    std::vector<int> lost;
    std::set_union(lost_.begin(), lost_.end(), places.begin(), places.end(),
                   std::back_inserter(lost));
    lost_ = std::move(lost);
    stop(Cause::kLost, cold_spares);
  }

  // Announced: a running job loses time only. Its roles move to spares; or an elastic job takes
  // them away from the nodes, whose state peers have; or it is drained, with a save, and starts
  // again.
  void leave(std::span<const int> nodes) {
    const bool was_running = phase_ == Phase::kRunning;
    const std::vector<int> places = places_.remove(nodes);
    if (!was_running || places.empty()) return interrupt(places, 0);
    if (strategy_.migrates && places_.spares() >= std::ssize(places)) {
      ++result_.migrations;
      places_.fill();
      return recover_in({.change = strategy_.recovery.migrate});
    }
    const bool shrinks = is_elastic() && can_move_roles(strategy_.protection);
    if (shrinks) lost_ = places;
    stop(shrinks ? Cause::kTold : Cause::kDrained, 0);
  }

  void stop(Cause cause, int cold_spares) {
    ++result_.interruptions;
    state_.note_saves(clock_);
    is_interrupted_ = true;
    cause_ = cause;
    has_waited_ = false;
    grow_at_ = kNever;
    had_warm_spare_ = places_.spares() > cold_spares;
    phase_ = Phase::kWaiting;
    recover_if_possible();
  }

  void plan_growth() {
    if (is_elastic() && !places_.is_full() && places_.spares() > 0 && grow_at_ == kNever) {
      grow_at_ = now_ + strategy_.recovery.grow_wait;
    }
  }

  void grow() {
    grow_at_ = kNever;
    places_.fill();
    recover_in({.change = strategy_.recovery.grow});
  }

  // --- Recovery ---

  void recover_if_possible() {
    places_.fill();
    if (!can_run()) {
      phase_ = Phase::kWaiting;
      has_waited_ = true;
      return;
    }
    if (!places_.is_full()) ++result_.shrinks;
    if (cause_ == Cause::kDrained) {
      const double save = std::max(strategy_.save.stall_seconds, strategy_.fallback.stall_seconds);
      recover_in({.change = switch_seconds(), .restore = save + strategy_.recovery.load_durable});
    } else {
      const double detect = cause_ == Cause::kTold ? 0 : strategy_.recovery.detect;
      recover_in({detect, switch_seconds(), restore_seconds()});
    }
  }

  void recover_in(const RecoveryParts& parts) {
    phase_ = Phase::kRecovering;
    recovery_ = parts;
    recovered_at_ = now_ + parts.total();
  }

  void end_recovery() {
    if (is_interrupted_) {
      ++result_.recoveries;
      state_.on_recovered(clock_, std::exchange(lost_, {}));
    }
    is_interrupted_ = false;
    cause_ = Cause::kLost;
    state_.note_holders(places_);
    phase_ = Phase::kRunning;
    plan_growth();
  }

  double switch_seconds() const {
    const RecoverySeconds& times = strategy_.recovery;
    // Of a drained job nothing lives on, standbys neither.
    if (cause_ == Cause::kDrained) return times.restart;
    if (is_elastic()) return times.reconfigure;
    const bool is_warm =
        strategy_.replacement == NodeReplacement::kStandby && had_warm_spare_ && !has_waited_;
    return is_warm ? times.standby : times.restart;
  }

  // Puts the clock to where training will go on; the seconds to load and to catch up.
  double restore_seconds() {
    const SurvivingState::Restored restored = state_.restore(clock_, lost_, places_);
    if (restored.is_fallback) ++result_.fallbacks;
    result_.lost_steps += restored.lost_steps;
    const double undone = clock_ - restored.clock;
    result_.rework_seconds += undone;
    spans_.lose(undone);
    clock_ = restored.clock;
    return restored.seconds;
  }

  SimulatedRun summary() {
    const double progress = clock_rule().position(clock_).progress();
    result_.wall_seconds = now_;
    result_.useful_seconds = progress * job_.step_seconds;
    result_.protection_seconds = clock_ - result_.useful_seconds;
    return result_;
  }

  const TrainedJob job_;
  const RunStrategy strategy_;
  AvailabilitySource& source_;
  const RunLimits limits_;
  SurvivingState state_;
  JobPlaces places_;
  RunSpans spans_;

  double now_ = 0;
  double clock_ = 0;  // of training
  Phase phase_ = Phase::kRunning;
  double recovered_at_ = kNever;  // while recovering
  RecoveryParts recovery_;        // what is left of it
  double grow_at_ = kNever;       // while running
  std::vector<int> lost_;         // places, since training last ran, ascending
  bool is_interrupted_ = false;   // and not yet recovered; a pause to grow or migrate is none
  Cause cause_ = Cause::kLost;    // of the interruption
  bool has_waited_ = false;       // for nodes, since the interruption
  bool had_warm_spare_ = false;   // at the interruption
  SimulatedRun result_;
};

}  // namespace

SimulatedRun simulate_run(const TrainedJob& job, const RunStrategy& strategy,
                          AvailabilitySource& source, const RunLimits& limits,
                          std::vector<RunSpan>* spans) {
  CHECK(limits.wall_seconds < kNever || limits.steps < std::numeric_limits<int64_t>::max());
  CHECK(job.nodes_least >= 1 && job.nodes_least <= job.nodes && job.elastic_unit >= 1);
  CHECK(job.stages >= 1 && job.rounds >= 1);
  CHECK(strategy.sparse.window >= 1 && strategy.sparse.lag_steps >= 0 && strategy.copies >= 0);
  return RunSimulation(job, strategy, source, limits, spans).run();
}

}  // namespace evermoe
