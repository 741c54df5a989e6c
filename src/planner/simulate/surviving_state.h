// What of a run's state survives a failure: saves, copies at peers, windows, live replicas. And
// what going on from it costs: training that is undone, loading, catching up.
//
// Moments are by the clock of training (training_clock.h). Which places are played and lost is the
// run's affair (run_simulation.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/simulate/job_places.h"
#include "planner/simulate/lossy_ages.h"
#include "planner/simulate/run_strategy.h"
#include "planner/simulate/training_clock.h"

namespace evermoe {

class SurvivingState {
 public:
  SurvivingState(const TrainedJob& job, const RunStrategy& strategy);

  const TrainingClock& clock_rule() const { return clock_rule_; }

  // Training begins, goes on or grows with the places that are filled: they have the state now.
  void note_holders(const JobPlaces& places);
  // An interruption at `clock`: saves that are usable then stay, those under way are lost.
  void note_saves(double clock);
  // A recovery from the loss of `lost` is over: they have the state again, but no copies of others
  // for a while.
  void on_recovered(double clock, std::vector<int> lost);

  // Where training goes on.
  struct Restored {
    double clock = 0;    // at most that of the failure
    double seconds = 0;  // to load and to catch up
    double lost_steps = 0;
    bool is_fallback = false;  // to the durable save, because copies were lost
  };
  // The places `lost` have failed since training last ran, ascending.
  Restored restore(double clock, std::span<const int> lost, const JobPlaces& places);

 private:
  bool survives(std::span<const int> lost, const JobPlaces& places) const;
  Restored back_to(double clock, int64_t steps, double seconds) const;
  Restored fall_back(double clock);
  int64_t new_save(const PeriodicSave& save, double clock) const;
  double load_of_copies() const;
  int64_t window_end(double clock) const;
  bool has_window(double clock) const;
  double step_again(std::span<const int> lost, const JobPlaces& places) const;
  Restored catch_up_from_save(double clock, std::span<const int> lost,
                              const JobPlaces& places) const;
  double catch_up_seconds(double clock, std::span<const int> lost, const JobPlaces& places) const;
  int64_t copies_again_steps() const;

  const TrainedJob job_;
  const RunStrategy strategy_;
  const TrainingClock clock_rule_;
  LossyAges ages_;
  int64_t saved_ = 0;         // newest usable save at the last interruption
  int64_t base_ = 0;          // the same of durable saves below copies
  int64_t resumed_at_ = 0;    // steps done when the run last went on
  int64_t start_ = 0;         // where the whole job last began: windows and copies since then
  std::vector<int> holders_;  // live replicas: places that had their state when training last ran
  std::vector<int> bare_;     // places that keep no copies yet
  double bare_until_ = 0;
};

}  // namespace evermoe
