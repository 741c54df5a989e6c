#include "parallel/pipeline_schedule.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace evermoe {
namespace {

using Kind = RoundOperation::Kind;

// One simulated step of the pipeline; every stage runs at most one round per tick.
class Simulation {
 public:
  Simulation(const std::vector<int>& widths, int micro_batches)
      : widths_(widths),
        micro_batches_(micro_batches),
        stages_(static_cast<int>(widths.size())),
        forward_(stages_, 0),
        backward_(stages_, 0),
        orders_(stages_),
        limit_(stages_) {
    int behind = 0;
    for (int s = stages_ - 1; s >= 0; --s) {
      behind += widths_[s];
      // Whole rounds of this stage that cover the micro-batches on their way behind it.
      limit_[s] = (behind + widths_[s] - 1) / widths_[s];
    }
  }

  std::vector<std::vector<RoundOperation>> run() {
    while (!finished()) {
      if (!tick()) admit_one_more();
    }
    return std::move(orders_);
  }

 private:
  int rounds(int stage) const { return round_count(widths_[stage], micro_batches_); }
  int micro_batches_in(int stage, int round_end) const {
    return std::min(widths_[stage] * round_end, micro_batches_);
  }
  bool finished() const {
    for (int s = 0; s < stages_; ++s) {
      if (backward_[s] < rounds(s)) return false;
    }
    return true;
  }

  bool forward_ready(int s) const {
    if (forward_[s] >= rounds(s)) return false;
    return s == 0 ||
           micro_batches_in(s - 1, forward_[s - 1]) >= micro_batches_in(s, forward_[s] + 1);
  }
  bool backward_ready(int s) const {
    if (backward_[s] >= forward_[s]) return false;
    return s == stages_ - 1 ||
           micro_batches_in(s + 1, backward_[s + 1]) >= micro_batches_in(s, backward_[s] + 1);
  }

  // Lets every stage start what was ready at the beginning of the tick; backward comes first,
  // because it frees activations. False if no stage could move.
  bool tick() {
    std::vector<int> choice(stages_, 0);
    for (int s = 0; s < stages_; ++s) {
      if (backward_ready(s)) {
        choice[s] = 2;
      } else if (forward_ready(s) && forward_[s] - backward_[s] < limit_[s]) {
        choice[s] = 1;
      }
    }
    bool moved = false;
    for (int s = 0; s < stages_; ++s) {
      if (choice[s] == 0) continue;
      moved = true;
      if (choice[s] == 2) {
        orders_[s].push_back({Kind::kBackward, backward_[s]++});
      } else {
        orders_[s].push_back({Kind::kForward, forward_[s]++});
      }
    }
    return moved;
  }

  // Unequal widths can make a stage need more micro-batches than the limits let through: then the
  // last stage that could run a forward round gets room for one more.
  void admit_one_more() {
    for (int s = stages_ - 1; s >= 0; --s) {
      if (forward_ready(s)) {
        ++limit_[s];
        return;
      }
    }
    CHECK(false) << "pipeline cannot move";
  }

  const std::vector<int>& widths_;
  const int micro_batches_;
  const int stages_;
  std::vector<int> forward_;  // rounds done, by stage
  std::vector<int> backward_;
  std::vector<std::vector<RoundOperation>> orders_;
  std::vector<int> limit_;  // rounds in flight
};

}  // namespace

std::vector<std::vector<RoundOperation>> pipeline_schedule(const std::vector<int>& widths,
                                                           int micro_batches) {
  CHECK(!widths.empty() && micro_batches >= 1 &&
        *std::min_element(widths.begin(), widths.end()) >= 1);
  return Simulation(widths, micro_batches).run();
}

int rounds_in_flight_max(const std::vector<RoundOperation>& order) {
  int held = 0, most = 0;
  for (const RoundOperation& operation : order) {
    held += operation.kind == Kind::kForward ? 1 : -1;
    most = std::max(most, held);
  }
  return most;
}

}  // namespace evermoe
