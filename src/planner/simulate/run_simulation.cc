#include "planner/simulate/run_simulation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "planner/simulate/job_slots.h"
#include "planner/simulate/lossy_ages.h"
#include "planner/simulate/run_spans.h"
#include "planner/simulate/training_clock.h"

namespace evermoe {
namespace {

using Kind = AvailabilityEvent::Kind;

constexpr double kNever = std::numeric_limits<double>::infinity();

enum class Phase : uint8_t { kRunning, kRecovering, kWaiting };

bool has_saves(StateProtection protection) {
  return protection != StateProtection::kSparse && protection != StateProtection::kReplicas;
}

bool survives_only_with_copies(StateProtection protection) {
  return protection != StateProtection::kDurable && protection != StateProtection::kPartialExperts;
}

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
        clock_rule_(
            job.step_seconds * (1 + strategy.step_overhead_share),
            has_saves(strategy.protection) ? strategy.save : PeriodicSave{},
            survives_only_with_copies(strategy.protection) ? strategy.fallback : PeriodicSave{}),
        slots_(job.nodes, source.nodes(), job.racks),
        ages_(strategy.lossy),
        spans_(spans) {
    std::vector<int> up;
    for (int node = 0; node < source.nodes(); ++node) {
      if (source.up_at_start(node)) up.push_back(node);
    }
    slots_.add(up);
    slots_.fill();
    holders_ = slots_.filled_slots();
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
  double speed() const { return job_.speed(slots_.filled()); }
  bool is_elastic() const { return strategy_.replacement == NodeReplacement::kElastic; }
  bool can_run() const {
    return slots_.is_full() || slots_.filled() >= job_.nodes_needed(is_elastic());
  }

  // --- Time ---

  double finish() const {
    if (limits_.steps == std::numeric_limits<int64_t>::max()) return kNever;
    return now_ + std::max(0.0, clock_rule_.at(limits_.steps) - clock_) / speed();
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
      clock_ = until == finish() ? clock_rule_.at(limits_.steps) : clock_ + seconds * speed();
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
        return interrupt(slots_.slots_of(event.nodes), slots_.spares_among(event.nodes));
      case Kind::kDown: return interrupt(slots_.remove(event.nodes), 0);
      case Kind::kAnnounced: return leave(event.nodes);
    }
  }

  void come(std::span<const int> nodes) {
    slots_.add(nodes);
    if (phase_ == Phase::kWaiting) recover_if_possible();
    if (phase_ == Phase::kRunning) plan_growth();
  }

  // `cold_spares` crashed at the same time: they are no warm standbys.
  void interrupt(const std::vector<int>& slots, int cold_spares) {
    if (slots.empty()) return;
    std::vector<int> lost;
    std::set_union(lost_.begin(), lost_.end(), slots.begin(), slots.end(),
                   std::back_inserter(lost));
    lost_ = std::move(lost);
    stop(/*is_orderly=*/false, cold_spares);
  }

  // Announced: while the job runs, nothing but time is lost, by migration or by a save in the last
  // moment.
  void leave(std::span<const int> nodes) {
    const bool was_running = phase_ == Phase::kRunning;
    const std::vector<int> slots = slots_.remove(nodes);
    if (!was_running || slots.empty()) return interrupt(slots, 0);
    if (strategy_.migrates && slots_.spares() >= std::ssize(slots)) {
      ++result_.migrations;
      slots_.fill();
      return recover_in({.change = strategy_.recovery.migrate});
    }
    stop(/*is_orderly=*/true, 0);
  }

  void stop(bool is_orderly, int cold_spares) {
    ++result_.interruptions;
    note_saves();
    is_interrupted_ = true;
    is_orderly_ = is_orderly;
    has_waited_ = false;
    grow_at_ = kNever;
    had_warm_spare_ = slots_.spares() > cold_spares;
    phase_ = Phase::kWaiting;
    recover_if_possible();
  }

  void plan_growth() {
    if (is_elastic() && !slots_.is_full() && slots_.spares() > 0 && grow_at_ == kNever) {
      grow_at_ = now_ + strategy_.recovery.grow_wait;
    }
  }

  void grow() {
    grow_at_ = kNever;
    slots_.fill();
    recover_in({.change = strategy_.recovery.grow});
  }

  // --- Recovery ---

  void recover_if_possible() {
    slots_.fill();
    if (!can_run()) {
      phase_ = Phase::kWaiting;
      has_waited_ = true;
      return;
    }
    if (!slots_.is_full()) ++result_.shrinks;
    if (is_orderly_) {
      const double save = std::max(strategy_.save.stall_seconds, strategy_.fallback.stall_seconds);
      recover_in({.change = switch_seconds(), .restore = save + strategy_.recovery.load_durable});
    } else {
      const double detect = strategy_.recovery.detect, change = switch_seconds();
      recover_in({detect, change, restore_seconds()});
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
      bare_ = std::move(lost_);
      lost_.clear();
      bare_until_ = clock_ + static_cast<double>(copies_again_steps()) * job_.step_seconds;
      resumed_at_ = clock_rule_.position(clock_).steps;
    }
    is_interrupted_ = is_orderly_ = false;
    if (strategy_.protection == StateProtection::kReplicas) holders_ = slots_.filled_slots();
    phase_ = Phase::kRunning;
    plan_growth();
  }

  double switch_seconds() const {
    const RecoverySeconds& times = strategy_.recovery;
    if (is_elastic()) return times.reconfigure;
    const bool is_warm =
        strategy_.replacement == NodeReplacement::kStandby && had_warm_spare_ && !has_waited_;
    return is_warm ? times.standby : times.restart;
  }

  // Steps after a recovery until copies are where they should be.
  int64_t copies_again_steps() const {
    switch (strategy_.protection) {
      case StateProtection::kSparse:
        return strategy_.sparse.window + 1 + strategy_.sparse.lag_steps;
      case StateProtection::kPeerMemory: return strategy_.save.every_steps;
      default: return 0;
    }
  }

  // Puts the clock to where training will go on; the seconds to load and to catch up.
  double restore_seconds() {
    if (clock_ >= bare_until_) bare_.clear();
    if (survives_only_with_copies(strategy_.protection) && !state_survives()) return fall_back();
    switch (strategy_.protection) {
      case StateProtection::kSparse:
        return (has_window() ? strategy_.recovery.load_memory : load_of_base()) +
               catch_up_seconds();
      case StateProtection::kReplicas:
        go_back_to(clock_rule_.position(clock_).steps);
        return strategy_.recovery.load_memory;
      case StateProtection::kPeerMemory:
        go_back_to(std::max(saved_, base_));
        return saved_ >= base_ ? strategy_.recovery.load_memory : strategy_.recovery.load_durable;
      case StateProtection::kPartialExperts:
        if (strategy_.save.every_steps > 0)
          result_.lost_steps += ages_.fault(saved_, strategy_.save.every_steps);
        go_back_to(saved_);
        return strategy_.recovery.load_durable;
      case StateProtection::kDurable: go_back_to(saved_); return strategy_.recovery.load_durable;
    }
    return 0;
  }

  bool state_survives() const {
    if (strategy_.protection == StateProtection::kReplicas) {
      return replicas_survive(holders_, lost_, job_.stages, strategy_.copies + 1, slots_.slots());
    }
    return slots_.copies_survive(lost_, bare_, strategy_.copies);
  }

  double fall_back() {
    ++result_.fallbacks;
    go_back_to(base_);
    saved_ = base_of_windows_ = base_;
    return strategy_.recovery.load_durable;
  }

  // What an interruption finds usable. A save that is under way then is lost, so one from before
  // the run was last resumed counts only if it was noted then.
  void note_saves() {
    if (has_saves(strategy_.protection)) saved_ = std::max(saved_, new_save(strategy_.save));
    if (survives_only_with_copies(strategy_.protection))
      base_ = std::max(base_, new_save(strategy_.fallback));
  }
  int64_t new_save(const PeriodicSave& save) const {
    const int64_t newest = clock_rule_.newest_usable(save, clock_);
    return newest > resumed_at_ ? newest : 0;
  }

  void go_back_to(int64_t steps) {
    const double clock = std::min(clock_, clock_rule_.at(steps));
    result_.rework_seconds += clock_ - clock;
    spans_.lose(clock_ - clock);
    clock_ = clock;
  }

  // The end of the newest complete window. A step's copies have arrived lag steps after the end of
  // the next.
  int64_t window_end() const {
    const int64_t complete = clock_rule_.position(clock_).steps - 1 - strategy_.sparse.lag_steps;
    return complete < 0 ? 0 : complete / strategy_.sparse.window * strategy_.sparse.window;
  }
  // Whether that window began after the state that training last went back to.
  bool has_window() const { return window_end() - strategy_.sparse.window >= base_of_windows_; }
  double load_of_base() const { return base_of_windows_ > 0 ? strategy_.recovery.load_durable : 0; }

  double catch_up_seconds() {
    const double progress = clock_rule_.position(clock_).progress();
    const double share = job_.stage_share(std::max(1, slots_.adjacent_stages(lost_, job_.stages)));
    if (!has_window())
      return share * (progress - static_cast<double>(base_of_windows_)) * job_.step_seconds;
    const double steps = progress - static_cast<double>(window_end());
    return share * (strategy_.sparse.conversion_seconds + steps * job_.step_seconds);
  }

  SimulatedRun summary() {
    const double progress = clock_rule_.position(clock_).progress();
    result_.wall_seconds = now_;
    result_.useful_seconds = progress * job_.step_seconds;
    result_.protection_seconds = clock_ - result_.useful_seconds;
    return result_;
  }

  const TrainedJob job_;
  const RunStrategy strategy_;
  AvailabilitySource& source_;
  const RunLimits limits_;
  const TrainingClock clock_rule_;
  JobSlots slots_;
  LossyAges ages_;
  RunSpans spans_;

  double now_ = 0;
  double clock_ = 0;  // of training, by clock_rule_
  Phase phase_ = Phase::kRunning;
  double recovered_at_ = kNever;  // while recovering
  RecoveryParts recovery_;        // what is left of it
  double grow_at_ = kNever;       // while running
  int64_t saved_ = 0;             // newest usable save at the last interruption
  int64_t base_ = 0;              // the same of durable saves below copies
  int64_t resumed_at_ = 0;        // steps done when the run last went on
  int64_t base_of_windows_ = 0;   // step from which windows have been captured without a break
  std::vector<int> lost_;         // slots, since training last ran, ascending
  std::vector<int> holders_;     // live replicas: slots that had their state when training last ran
  std::vector<int> bare_;        // slots that keep no copies yet
  double bare_until_ = 0;        // by the clock of training
  bool is_interrupted_ = false;  // and not yet recovered; a pause to grow or migrate is none
  bool is_orderly_ = false;      // the state was brought to safety before the interruption
  bool has_waited_ = false;      // for nodes, since the interruption
  bool had_warm_spare_ = false;  // at the interruption
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
