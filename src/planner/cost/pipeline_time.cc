#include "planner/cost/pipeline_time.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "parallel/pipeline_schedule.h"

namespace evermoe {
namespace {

constexpr double kNotYet = -1;

class PipelinePlay {
 public:
  PipelinePlay(const std::vector<int>& lanes, int micro_batches, const std::vector<double>& forward,
               const std::vector<double>& backward)
      : lanes_(lanes),
        forward_(forward),
        backward_(backward),
        orders_(pipeline_schedule(lanes, micro_batches)),
        next_(lanes.size(), 0),
        free_(lanes.size(), 0),
        activations_(lanes.size(),
                     std::vector<double>(static_cast<size_t>(micro_batches), kNotYet)),
        gradients_(activations_) {
    std::fill(activations_.front().begin(), activations_.front().end(), 0);
    std::fill(gradients_.back().begin(), gradients_.back().end(), 0);
  }

  double seconds() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t stage = 0; stage < lanes_.size(); ++stage) {
        while (run_next(stage)) moved = true;
      }
    }
    return *std::max_element(free_.begin(), free_.end());
  }

 private:
  using Times = std::vector<double>;

  // False if the stage is done or its next round still waits for a micro-batch.
  bool run_next(size_t stage) {
    if (next_[stage] == orders_[stage].size()) return false;
    const RoundOperation op = orders_[stage][next_[stage]];
    const bool is_forward = op.kind == RoundOperation::Kind::kForward;
    const std::optional<double> ready =
        ready_at(is_forward ? activations_[stage] : gradients_[stage], op.round, lanes_[stage]);
    if (!ready) return false;
    free_[stage] =
        std::max(free_[stage], *ready) + (is_forward ? forward_[stage] : backward_[stage]);
    if (is_forward && stage + 1 < lanes_.size())
      arrive(activations_[stage + 1], op.round, lanes_[stage], free_[stage]);
    if (!is_forward && stage > 0)
      arrive(gradients_[stage - 1], op.round, lanes_[stage], free_[stage]);
    ++next_[stage];
    return true;
  }

  static std::optional<double> ready_at(const Times& times, int round, int lanes) {
    double latest = 0;
    for (size_t m = first(round, lanes); m < end(times, round, lanes); ++m) {
      if (times[m] == kNotYet) return std::nullopt;
      latest = std::max(latest, times[m]);
    }
    return latest;
  }
  static void arrive(Times& times, int round, int lanes, double when) {
    for (size_t m = first(round, lanes); m < end(times, round, lanes); ++m) times[m] = when;
  }
  static size_t first(int round, int lanes) {
    return static_cast<size_t>(round) * static_cast<size_t>(lanes);
  }
  static size_t end(const Times& times, int round, int lanes) {
    return std::min(times.size(), first(round + 1, lanes));
  }

  const std::vector<int>& lanes_;
  const Times& forward_;
  const Times& backward_;
  const std::vector<std::vector<RoundOperation>> orders_;
  std::vector<size_t> next_;        // by stage: operation
  Times free_;                      // by stage: when its last operation ended
  std::vector<Times> activations_;  // by stage and micro-batch: when they came
  std::vector<Times> gradients_;
};

}  // namespace

double pipeline_seconds(const std::vector<int>& lanes, int micro_batches,
                        const std::vector<double>& forward, const std::vector<double>& backward) {
  CHECK(forward.size() == lanes.size() && backward.size() == lanes.size());
  return PipelinePlay(lanes, micro_batches, forward, backward).seconds();
}

}  // namespace evermoe
