// The training of the dumb oracle (naive_run_testing.h), and what it can go back to: one step, one
// stall, one snapshot, one expert at a time.
//
// It keeps what a real run would keep (lists of saves, snapshots that have arrived, the step at
// which each expert was saved) and looks it up after a failure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "planner/simulate/run_strategy.h"

namespace evermoe {

class NaiveTraining {
 public:
  NaiveTraining(const TrainedJob& job, const RunStrategy& strategy);

  // One action at a time: a step, then the stall of each save that is due.
  double left_in_action() const { return action_left_; }
  // So many seconds at full speed. REQUIRES: at most left_in_action()
  void train(double seconds);

  // Saves that are under way are lost, the others stay for ever.
  void lose_unfinished_saves();
  // Both return the seconds to load and to catch up. `share`: of a step's time, for the stages that
  // take part.
  double restore(double share);
  double fall_back();

  double trained_seconds() const { return trained_; }  // that stayed done
  double useful_seconds() const;
  double rework_seconds() const { return rework_; }
  double lost_steps() const { return lost_steps_; }

 private:
  bool is_at_peers() const;
  bool has_saves() const;
  bool is_due(const PeriodicSave& save, bool is_used) const;
  double step_seconds() const { return job_.step_seconds * (1 + strategy_.step_overhead_share); }
  double fraction() const { return stalls_ > 0 ? 1 : 1 - action_left_ / step_seconds(); }
  void begin_step();
  void end_step();
  void go_back(int64_t step);
  void lose_tokens(int64_t save);
  int64_t end_of_newest_window() const;
  double catch_up(double share);

  const TrainedJob job_;
  const RunStrategy strategy_;
  int64_t done_ = 0;  // steps
  int stalls_ = 0;    // of the step under way that have begun
  double action_left_ = 0;
  double trained_ = 0;
  double rework_ = 0;
  double lost_steps_ = 0;
  std::map<int64_t, double> trained_at_;         // when each step ended
  std::map<int64_t, double> saves_, fallbacks_;  // step -> seconds of training since
  std::set<int64_t> snapshot_made_;
  int64_t base_ = 0;
  std::vector<int64_t> expert_saved_;
  int64_t restarted_at_ = 0;
};

}  // namespace evermoe
