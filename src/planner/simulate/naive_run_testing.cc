#include "planner/simulate/naive_run_testing.h"

#include <algorithm>
#include <set>
#include <vector>

#include "planner/simulate/naive_training_testing.h"

namespace evermoe {
namespace {

using Kind = AvailabilityEvent::Kind;
using enum StateProtection;

class NaiveRun {
 public:
  NaiveRun(const TrainedJob& job, const RunStrategy& strategy, AvailabilitySource& source)
      : job_(job),
        strategy_(strategy),
        source_(source),
        training_(job, strategy),
        player_(static_cast<size_t>(job.nodes), -1) {
    for (int node = 0; node < source.nodes(); ++node) {
      if (source.up_at_start(node)) spare_.insert(node);
    }
    assign();
    note_holders();
    running_ = enough();
  }

  SimulatedRun run(double wall_seconds) {
    auto event = source_.next();
    while (result_.wall_seconds < wall_seconds) {
      double seconds = wall_seconds - result_.wall_seconds;
      if (running_) seconds = std::min({seconds, training_.left_in_action() / speed(), grow_in_});
      if (recovering_) seconds = std::min(seconds, recovery_left_);
      const bool event_first = event && event->seconds - result_.wall_seconds < seconds;
      if (event_first) seconds = event->seconds - result_.wall_seconds;
      live(seconds);
      if (event_first) {
        take(*event);
        event = source_.next();
      }
    }
    return finish();
  }

 private:
  int filled() const {
    return static_cast<int>(
        std::count_if(player_.begin(), player_.end(), [](int n) { return n >= 0; }));
  }
  // The narrowest of elastic_unit stages over which the nodes are spread, against what it has at
  // full width.
  double speed() const {
    if (filled() == job_.nodes) return 1;
    return static_cast<double>(filled() / job_.elastic_unit) * job_.elastic_unit / job_.nodes;
  }
  bool elastic() const { return strategy_.replacement == NodeReplacement::kElastic; }
  bool enough() const {
    return filled() == job_.nodes || (elastic() && filled() >= job_.nodes_least && speed() > 0);
  }
  bool at_peers() const {
    return strategy_.protection != kDurable && strategy_.protection != kPartialExperts;
  }

  void assign() {
    for (int& node : player_) {
      if (node >= 0 || spare_.empty()) continue;
      node = *spare_.begin();
      spare_.erase(spare_.begin());
    }
  }

  void live(double seconds) {
    result_.wall_seconds += seconds;
    if (recovering_) {
      result_.recovery_seconds += seconds;
      const double detected = std::min(detecting_for_, seconds),
                   changed = std::min(changing_for_, seconds - detected);
      detecting_for_ -= detected;
      changing_for_ -= changed;
      result_.detection_seconds += detected;
      result_.change_seconds += changed;
      recovery_left_ -= seconds;
      if (recovery_left_ <= 1e-9) end_recovery();
    } else if (!running_) {
      result_.waiting_seconds += seconds;
    } else {
      result_.shrunk_seconds += seconds * (1 - speed());
      grow_in_ -= seconds;
      bare_for_ -= seconds * speed();
      training_.train(seconds * speed());
      if (grow_in_ <= 1e-9) grow();
    }
  }

  // --- Nodes ---
  void take(const AvailabilityEvent& event) {
    if (event.kind == Kind::kUp) {
      spare_.insert(event.nodes.begin(), event.nodes.end());
      if (recovering_) return;
      if (running_) return plan_growth();
      waited_ = true;
      return recover();
    }
    std::set<int> hit;
    for (size_t place = 0; place < player_.size(); ++place) {
      if (std::count(event.nodes.begin(), event.nodes.end(), player_[place]))
        hit.insert(static_cast<int>(place));
    }
    if (event.kind != Kind::kCrash) {
      for (const int place : hit) player_[static_cast<size_t>(place)] = -1;
      for (const int node : event.nodes) spare_.erase(node);
    }
    if (hit.empty()) return;
    ++result_.interruptions;
    training_.lose_unfinished_saves();
    lost_.insert(hit.begin(), hit.end());
    warm_ = std::any_of(spare_.begin(), spare_.end(), [&](int node) {
      return std::count(event.nodes.begin(), event.nodes.end(), node) == 0;
    });
    waited_ = false;
    running_ = recovering_ = false;
    grow_in_ = 1e300;
    recover();
  }

  void plan_growth() {
    if (elastic() && filled() < job_.nodes && !spare_.empty() && grow_in_ > 1e200)
      grow_in_ = strategy_.recovery.grow_wait;
  }
  void grow() {
    grow_in_ = 1e300;
    assign();
    pause_ = true;
    detecting_for_ = 0;
    changing_for_ = strategy_.recovery.grow;
    start_recovery(strategy_.recovery.grow);
  }

  // --- Recovery ---
  void recover() {
    assign();
    if (!enough()) {
      waited_ = true;
      return;
    }
    if (filled() < job_.nodes) ++result_.shrinks;
    const RecoverySeconds& r = strategy_.recovery;
    double change = strategy_.replacement == NodeReplacement::kStandby && warm_ && !waited_
                        ? r.standby
                        : r.restart;
    if (elastic()) change = r.reconfigure;
    detecting_for_ = r.detect;
    changing_for_ = change;
    start_recovery(r.detect + change + restore());
  }
  void start_recovery(double seconds) {
    running_ = false;
    recovering_ = true;
    recovery_left_ = seconds;
    if (seconds <= 0) end_recovery();
  }
  void end_recovery() {
    recovering_ = false;
    running_ = true;
    if (!pause_ || !lost_.empty()) {
      ++result_.recoveries;
      bare_ = lost_;
      bare_for_ = job_.step_seconds *
                  (strategy_.protection == kSparse
                       ? strategy_.sparse.window + 1 + strategy_.sparse.lag_steps
                   : strategy_.protection == kPeerMemory || strategy_.protection == kStageMemory ||
                           strategy_.protection == kGradients
                       ? static_cast<double>(strategy_.save.every_steps)
                       : 0.0);
    }
    pause_ = false;
    lost_.clear();
    note_holders();
    plan_growth();
  }

  void note_holders() {
    holders_.clear();
    for (size_t place = 0; place < player_.size(); ++place) {
      if (player_[place] >= 0) holders_.push_back(static_cast<int>(place));
    }
  }

  // Stage by stage: a state is gone when as many nodes are lost as hold it.
  bool replicas_live() const {
    const int count = static_cast<int>(holders_.size()), stages = std::min(job_.stages, count);
    for (int stage = 0; stage < stages; ++stage) {
      int lost = 0;
      for (int i = 0; i < count; ++i)
        lost += i * stages / count == stage && lost_.contains(holders_[static_cast<size_t>(i)]);
      int live = 1;  // of a state, in the narrowest stage
      while (live < count / stages &&
             (live + 1) * job_.nodes <= (strategy_.copies + 1) * (count / stages) * stages)
        ++live;
      if (lost >= live) return false;
    }
    return true;
  }

  bool copies_live() {
    if (strategy_.protection == kReplicas) return replicas_live();
    if (bare_for_ <= 1e-9) bare_.clear();
    const int stride = job_.racks > 1 ? (job_.nodes + job_.racks - 1) / job_.racks : 1;
    for (const int place : lost_) {
      int live = 0;
      for (int copy = 1; copy <= strategy_.copies; ++copy) {
        const int holder = (place + copy * stride) % job_.nodes;
        live += holder != place && !lost_.contains(holder) && !bare_.contains(holder);
      }
      if (live == 0) return false;
    }
    return true;
  }

  double restore() {
    pause_ = false;
    if (!at_peers() || copies_live()) return training_.restore(job_.stage_share(adjacent_lost()));
    ++result_.fallbacks;
    return training_.fall_back();
  }

  // The longest run of neighbouring stages that have lost a node. Stages and places as intervals of
  // the job.
  int adjacent_lost() const {
    std::set<int> stages;
    for (const int place : lost_) {
      for (int stage = 0; stage < job_.stages; ++stage) {
        const bool apart = stage * job_.nodes >= (place + 1) * job_.stages ||
                           place * job_.stages >= (stage + 1) * job_.nodes;
        if (!apart) stages.insert(stage);
      }
    }
    int adjacent = 0;
    for (const int stage : stages) {
      int run = 1;
      while (stages.contains(stage + run)) ++run;
      adjacent = std::max(adjacent, run);
    }
    return adjacent;
  }

  SimulatedRun finish() {
    result_.useful_seconds = training_.useful_seconds();
    result_.protection_seconds = training_.trained_seconds() - result_.useful_seconds;
    result_.rework_seconds = training_.rework_seconds();
    result_.lost_steps = training_.lost_steps();
    return result_;
  }

  const TrainedJob job_;
  const RunStrategy strategy_;
  AvailabilitySource& source_;
  NaiveTraining training_;
  SimulatedRun result_;
  std::vector<int> player_;   // by place: the node, -1 for none
  std::vector<int> holders_;  // places that were played when training last ran
  std::set<int> spare_;
  bool running_ = false, recovering_ = false, pause_ = false, warm_ = false, waited_ = false;
  double recovery_left_ = 0, detecting_for_ = 0, changing_for_ = 0, grow_in_ = 1e300;

  std::set<int> lost_, bare_;
  double bare_for_ = 0;
};

}  // namespace

SimulatedRun naive_run(const TrainedJob& job, const RunStrategy& strategy,
                       AvailabilitySource& source, const RunLimits& limits) {
  return NaiveRun(job, strategy, source).run(limits.wall_seconds);
}

}  // namespace evermoe
