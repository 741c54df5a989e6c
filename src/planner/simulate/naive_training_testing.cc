#include "planner/simulate/naive_training_testing.h"

#include <algorithm>

namespace evermoe {
namespace {

using enum StateProtection;

constexpr double kLongAgo = 1e300;

int64_t newest(const std::map<int64_t, double>& saves) {
  return saves.empty() ? 0 : saves.rbegin()->first;
}

void end_saves(std::map<int64_t, double>& saves, double after) {
  std::erase_if(saves, [&](const auto& entry) { return entry.second < after - 1e-9; });
  for (auto& [step, age] : saves) age = kLongAgo;
}

}  // namespace

NaiveTraining::NaiveTraining(const TrainedJob& job, const RunStrategy& strategy)
    : job_(job),
      strategy_(strategy),
      expert_saved_(static_cast<size_t>(strategy.lossy.experts), 0) {
  begin_step();
}

bool NaiveTraining::is_at_peers() const {
  return strategy_.protection != kDurable && strategy_.protection != kPartialExperts;
}

bool NaiveTraining::has_saves() const {
  return strategy_.protection != kSparse && strategy_.protection != kReplicas;
}

bool NaiveTraining::is_due(const PeriodicSave& save, bool is_used) const {
  return is_used && save.every_steps > 0 && (done_ + 1) % save.every_steps == 0;
}

void NaiveTraining::begin_step() {
  stalls_ = 0;
  action_left_ = step_seconds();
}

void NaiveTraining::train(double seconds) {
  trained_ += seconds;
  for (auto& [step, age] : saves_) age += seconds;
  for (auto& [step, age] : fallbacks_) age += seconds;
  action_left_ -= seconds;
  if (action_left_ > 1e-9) return;
  if (stalls_ == 0) {
    stalls_ = 1;
    action_left_ = is_due(strategy_.save, has_saves()) ? strategy_.save.stall_seconds : 0;
    if (action_left_ > 0) return;
  }
  if (stalls_ == 1) {
    stalls_ = 2;
    action_left_ = is_due(strategy_.fallback, is_at_peers()) ? strategy_.fallback.stall_seconds : 0;
    if (action_left_ > 0) return;
  }
  end_step();
}

void NaiveTraining::end_step() {
  if (is_due(strategy_.save, has_saves())) saves_[done_ + 1] = 0;
  if (is_due(strategy_.fallback, is_at_peers())) fallbacks_[done_ + 1] = 0;
  ++done_;
  snapshot_made_.insert(done_);
  trained_at_[done_] = trained_;
  begin_step();
}

void NaiveTraining::lose_unfinished_saves() {
  end_saves(saves_, strategy_.save.durable_after_seconds);
  end_saves(fallbacks_, strategy_.fallback.durable_after_seconds);
}

double NaiveTraining::fall_back() {
  base_ = newest(fallbacks_);
  go_back(base_);
  snapshot_made_.clear();
  saves_.clear();
  saves_[base_] = kLongAgo;
  return strategy_.recovery.load_durable;
}

double NaiveTraining::restore(double share) {
  const RecoverySeconds& r = strategy_.recovery;
  if (strategy_.protection == kSparse) return catch_up(share);
  if (strategy_.protection == kReplicas || strategy_.protection == kGradients) {
    go_back(done_);
    return r.load_memory;
  }
  const int64_t save = newest(saves_);
  if (strategy_.protection == kStageMemory) {
    double seconds = save > base_ ? r.load_memory : r.load_durable;
    for (int64_t step = save; step < done_; ++step) seconds += share * job_.step_seconds;
    return seconds + share * job_.step_seconds * fraction();
  }
  if (strategy_.protection == kPartialExperts) lose_tokens(save);
  const bool from_peers = strategy_.protection == kPeerMemory && save > base_;
  go_back(save);
  return from_peers ? r.load_memory : r.load_durable;
}

// A durable save may be newer than the copies that training went back to before: never forward.
void NaiveTraining::go_back(int64_t step) {
  if (step > done_) return;
  const double to = step == 0 ? 0 : trained_at_.at(step);
  rework_ += trained_ - to;
  trained_ = to;
  done_ = step;
  begin_step();
}

// Every expert at a time, every save of the past at a time.
void NaiveTraining::lose_tokens(int64_t save) {
  for (int64_t s = restarted_at_ + strategy_.save.every_steps; s <= save;
       s += strategy_.save.every_steps) {
    for (int k = 0; k < strategy_.lossy.saved; ++k) {
      *std::min_element(expert_saved_.begin(), expert_saved_.end()) = s;
    }
  }
  double lost = 0;
  for (const int64_t saved : expert_saved_) {
    for (int64_t step = saved + 1; step <= save; ++step) lost += step > restarted_at_;
  }
  lost_steps_ += lost / strategy_.lossy.experts;
  restarted_at_ = save;
}

// All of whose snapshots have arrived; -1.
int64_t NaiveTraining::end_of_newest_window() const {
  const int window = strategy_.sparse.window;
  for (int64_t end = done_ / window * window; end >= window; end -= window) {
    bool is_complete = true;
    for (int64_t step = end - window + 1; step <= end; ++step) {
      is_complete &=
          snapshot_made_.contains(step) && step + 1 + strategy_.sparse.lag_steps <= done_;
    }
    if (is_complete) return end;
  }
  return -1;
}

double NaiveTraining::catch_up(double share) {
  const int64_t end = end_of_newest_window();
  double seconds =
      end < 0 ? (base_ > 0 ? strategy_.recovery.load_durable : 0.0)
              : strategy_.recovery.load_memory + share * strategy_.sparse.conversion_seconds;
  for (int64_t step = end < 0 ? base_ : end; step < done_; ++step)
    seconds += share * job_.step_seconds;
  return seconds + share * job_.step_seconds * fraction();
}

double NaiveTraining::useful_seconds() const {
  return job_.step_seconds * (static_cast<double>(done_) + fraction());
}

}  // namespace evermoe
