#include "planner/failures/availability.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "base/check.h"
#include "planner/simulate/random_stream.h"

namespace evermoe {
namespace {

using Kind = AvailabilityEvent::Kind;

// Lives of nodes, racks and what all of them share, as alternating times of being up and being
// repaired.
class DrawnAvailability : public AvailabilitySource {
 public:
  DrawnAvailability(const FailureLaw& law, int nodes, int racks, uint64_t seed)
      : law_(law),
        nodes_(nodes),
        racks_(law.rack_mtbf_seconds > 0 ? racks : 0),
        scale_(law.node_mtbf_seconds / std::tgamma(1 + 1 / law.shape)),
        causes_(static_cast<size_t>(nodes), 0) {
    std::vector<Turn> turns;
    const int units = nodes_ + racks_ + (law.whole_job_node_seconds > 0);
    for (int unit = 0; unit < units; ++unit) {
      random_.emplace_back(seed, static_cast<uint64_t>(unit));
      turns.push_back({first_life(unit), unit, false});
    }
    turns_ = std::priority_queue<Turn, std::vector<Turn>, Later>(Later{}, std::move(turns));
  }

  std::optional<AvailabilityEvent> next() override {
    for (;;) {
      const Turn turn = turns_.top();
      turns_.pop();
      const std::optional<Kind> kind = take(turn);
      if (kind && !touched_.empty()) return AvailabilityEvent{turn.seconds, *kind, touched_};
    }
  }

  int nodes() const override { return nodes_; }
  bool up_at_start(int node) const override { return true; }

 private:
  // The end of a life, or of a repair.
  struct Turn {
    double seconds;
    int unit;
    bool is_repaired;
  };
  struct Later {
    bool operator()(const Turn& a, const Turn& b) const {
      return std::pair(a.seconds, a.unit) > std::pair(b.seconds, b.unit);
    }
  };

  bool is_rack(int unit) const { return unit >= nodes_ && unit < nodes_ + racks_; }
  bool is_all(int unit) const { return unit == nodes_ + racks_; }
  RandomStream& random(int unit) { return random_[static_cast<size_t>(unit)]; }

  double life(int unit) {
    if (is_all(unit)) return random(unit).exponential(law_.whole_job_node_seconds / nodes_);
    if (is_rack(unit)) return random(unit).exponential(law_.rack_mtbf_seconds);
    return random(unit).weibull(law_.shape, scale_);
  }

  // The rest of a life that is under way at a random instant: a uniform part of a life drawn with
  // probability proportional to its length.
  double first_life(int unit) {
    if (unit >= nodes_ || !law_.aged || law_.shape == 1) return life(unit);
    const double long_life =
        scale_ * std::pow(random(unit).gamma(1 + 1 / law_.shape), 1 / law_.shape);
    return random(unit).uniform() * long_life;
  }

  double repair(int unit) {
    const double mean = is_rack(unit) ? law_.rack_repair_seconds : law_.repair_seconds;
    return law_.exponential_repair ? random(unit).exponential(mean) : mean;
  }

  // What the turn means, with the nodes that see it in touched_.
  std::optional<Kind> take(const Turn& turn) {
    if (turn.is_repaired) {
      turns_.push({turn.seconds + life(turn.unit), turn.unit, false});
      add_cause(turn.unit, -1);
      return Kind::kUp;
    }
    const std::optional<Kind> kind = kind_of_failure(turn.unit);
    if (kind == Kind::kCrash) {
      turns_.push({turn.seconds + life(turn.unit), turn.unit, false});
      touch_those_up(is_all(turn.unit) ? 0 : turn.unit, is_all(turn.unit) ? nodes_ : turn.unit + 1);
    } else {
      turns_.push({turn.seconds + repair(turn.unit), turn.unit, true});
      add_cause(turn.unit, 1);
    }
    return kind;
  }

  std::optional<Kind> kind_of_failure(int unit) {
    if (is_all(unit)) return Kind::kCrash;
    if (is_rack(unit)) return Kind::kDown;
    if (law_.repair_seconds == 0) return Kind::kCrash;
    if (law_.crash_share > 0 && random(unit).uniform() < law_.crash_share) return Kind::kCrash;
    if (law_.announced_share > 0 && random(unit).uniform() < law_.announced_share)
      return Kind::kAnnounced;
    return Kind::kDown;
  }

  void touch_those_up(int begin, int end) {
    touched_.clear();
    for (int node = begin; node < end; ++node) {
      if (causes_[static_cast<size_t>(node)] == 0) touched_.push_back(node);
    }
  }

  // One cause more or less for the unit's nodes to be down; those that change are touched.
  void add_cause(int unit, int change) {
    int begin = unit, end = unit + 1;
    if (is_rack(unit)) {
      const int64_t rack = unit - nodes_;
      begin = static_cast<int>(rack * nodes_ / racks_);
      end = static_cast<int>((rack + 1) * nodes_ / racks_);
    }
    touched_.clear();
    for (int node = begin; node < end; ++node) {
      int& causes = causes_[static_cast<size_t>(node)];
      const bool was_up = causes == 0;
      causes += change;
      if (was_up != (causes == 0)) touched_.push_back(node);
    }
  }

  const FailureLaw law_;
  const int nodes_;
  const int racks_;
  const double scale_;
  std::vector<RandomStream> random_;  // by unit: nodes, then racks, then what all share
  std::vector<int> causes_;           // by node: why it is down
  std::priority_queue<Turn, std::vector<Turn>, Later> turns_;
  std::vector<int> touched_;
};

}  // namespace

int rack_of(int node, int nodes, int racks) {
  CHECK(0 <= node && node < nodes && racks >= 1);
  // The largest r with floor(r nodes / racks) <= node.
  return static_cast<int>((static_cast<int64_t>(node + 1) * racks - 1) / nodes);
}

std::unique_ptr<AvailabilitySource> draw_availability(const FailureLaw& law, int nodes, int racks,
                                                      uint64_t seed) {
  CHECK(nodes >= 1 && racks >= 0) << nodes << " nodes, " << racks << " racks";
  CHECK_OK(check(law, racks));
  return std::make_unique<DrawnAvailability>(law, nodes, racks, seed);
}

}  // namespace evermoe
