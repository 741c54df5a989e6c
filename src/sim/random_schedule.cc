#include "sim/random_schedule.h"

#include <algorithm>
#include <utility>

#include "sim/hash/hash_mix.h"

namespace evermoe {
namespace {

// Counter-based: the n-th draw of a seed. The seed is mixed first, or neighbouring seeds would
// share their draws.
class Draws {
 public:
  explicit Draws(uint64_t seed) : next_(mix(seed)) {}
  uint64_t below(uint64_t bound) { return mix(std::exchange(next_, next_ + kMixStep)) % bound; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  template <typename T>
  const T& of(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }

 private:
  uint64_t next_;
};

struct PointChoice {
  const char* name;
  uint64_t passings;  // how often it is passed in a run, roughly
};

const std::vector<PointChoice>& points() {
  static const std::vector<PointChoice> all = {
      {"step/forward", 150},       {"step/backward", 150},   {"step/accumulated", 50},
      {"step/before_verdict", 50}, {"commit/reduced", 60},   {"step/after_verdict", 50},
      {"step/updated", 50},        {"step/save", 10},        {"capture/copied", 400},
      {"capture/sent", 400},       {"copy/stored", 400},     {"recovery/stopped", 12},
      {"recovery/plan", 6},        {"recovery/opening", 12}, {"recovery/restored", 6},
      {"catch_up/step", 20},       {"catch_up/verified", 4}};
  return all;
}

// As long as a hiccup, almost as long as silence is tolerated, or longer.
absl::Duration random_time(Draws& draws) {
  static const std::vector<int> kMilliseconds = {40, 150, 350, 600, 900, 1300, 2500};
  return absl::Milliseconds(draws.of(kMilliseconds)) +
         absl::Microseconds(static_cast<int64_t>(draws.below(50000)));
}

// What the seed has drawn of windows is for the sparse strategy.
void take_strategy(StrategyKind strategy, SimulatedShape& shape) {
  shape.strategy = strategy;
  shape.model.tunes_saves = strategy_of(strategy).tunes_saves;
  if (strategy == StrategyKind::kSparse) return;
  shape.window = 1;
  shape.changes_windows = false;
  // Without copies there is nothing but the disk to go back to.
  if (!strategy_of(strategy).keeps_copies) shape.restart_all_allowed = true;
}

SimulatedShape random_shape(uint64_t seed, Draws& draws, const ScheduleOptions& options) {
  SimulatedShape shape;
  static const std::vector<std::vector<int>> kLanes = {
      {2, 2}, {2, 2}, {1, 1, 1}, {2, 1, 2}, {3, 2}, {1, 2}, {4}, {2, 2, 2}, {1, 1, 1, 1}};
  shape.lanes = options.lanes.empty() ? draws.of(kLanes) : options.lanes;
  int world = 0;
  for (const int width : shape.lanes) world += width;
  shape.nodes = options.nodes > 0 ? options.nodes
                                  : 1 + static_cast<int>(draws.below(static_cast<uint64_t>(world)));
  shape.spares = static_cast<int>(draws.below(3));
  shape.copies = 1 + static_cast<int>(draws.below(2));
  shape.window = 1 + static_cast<int>(draws.below(4));
  shape.period = draws.one_in(4) ? shape.window + static_cast<int>(draws.below(3)) : shape.window;
  shape.model.seed = 1 + draws.below(3);
  shape.model.steps = 8 + static_cast<int64_t>(draws.below(8));
  shape.model.micro_batches = 2 + static_cast<int>(draws.below(4));
  shape.model.evaluate_every = draws.one_in(2) ? 3 : 0;
  shape.model.evaluation_batches = 1 + shape.model.micro_batches % 3;
  shape.model.save_every = draws.one_in(2) ? 4 : 0;
  shape.changes_windows = draws.one_in(3);
  shape.ordering.by = static_cast<OrderBy>(draws.below(6));
  if (draws.one_in(2)) shape.ordering.reorder = {0, 0};  // a new order for every window
  shape.restart_all_allowed = !draws.one_in(4);
  shape.copy_bytes_per_second = draws.one_in(3) ? 2e4 : 1e6;
  shape.network.seed = seed;
  shape.network.time_max = absl::Minutes(3);
  shape.network.switch_at_every_call = draws.one_in(2);
  shape.ends_lost_nodes = !draws.one_in(3);
  shape.lines_may_break = !draws.one_in(3);
  shape.asks_partners = !draws.one_in(3);
  shape.has_store = options.with_store && draws.one_in(4);
  if (shape.has_store) shape.lines_may_break = true;
  take_strategy(options.strategy, shape);
  if (options.with_late_nodes && draws.one_in(8)) {
    shape.late_node =
        Node(static_cast<int32_t>(draws.below(static_cast<uint64_t>(shape.nodes + shape.spares))));
    shape.late = random_time(draws);
  }
  // So slow that a window takes longer than members wait before they ask again, and a step with its
  // copies almost as long as the controller allows.
  if (draws.one_in(5)) shape.network.bytes_per_second = 3e4;
  return shape;
}

SimulatedFault random_fault(Draws& draws, const SimulatedShape& shape,
                            const ScheduleOptions& options) {
  using Kind = SimulatedFault::Kind;
  std::vector<Kind> kinds(5, Kind::kKillWorker);
  if (options.with_node_kills) kinds.insert(kinds.end(), 2, Kind::kKillNode);
  if (options.with_doomed_roles) kinds.push_back(Kind::kDoomRole);
  if (options.with_controller_kills) kinds.push_back(Kind::kKillController);
  if (options.with_stops) kinds.push_back(Kind::kStopWorker);
  kinds.push_back(Kind::kPause);
  kinds.push_back(Kind::kHang);
  if (options.with_cuts) kinds.push_back(Kind::kCut);
  if (options.with_corruption) kinds.insert(kinds.end(), 2, Kind::kCorruptCopies);
  if (options.with_control_faults) {
    kinds.insert(kinds.end(), {Kind::kStopAgent, Kind::kStopNode, Kind::kStopController,
                               Kind::kCutLine, Kind::kMuteNode, Kind::kDeafNode, Kind::kSlowLine,
                               Kind::kBreakLine, Kind::kBreakLine, Kind::kChangeHost,
                               Kind::kChangeHost, Kind::kCutNodes, Kind::kIsolateNode});
  }
  if (options.with_disk_faults && shape.model.save_every > 0)
    kinds.insert(kinds.end(), 2, Kind::kFillDisk);
  if (options.with_control_faults && shape.has_store) {
    kinds.insert(
        kinds.end(),
        {Kind::kKillNode, Kind::kKillNode, Kind::kSuspendNode, Kind::kSuspendNode, Kind::kStopNode,
         Kind::kStopAgent, Kind::kCutStore, Kind::kCutStore, Kind::kMuteStore, Kind::kStopStore});
  }
  uint64_t world = 0;
  for (const int width : shape.lanes) world += static_cast<uint64_t>(width);
  SimulatedFault fault;
  fault.kind = draws.of(kinds);
  fault.rank = Rank(static_cast<int32_t>(draws.below(world)));
  fault.other = Rank(static_cast<int32_t>(draws.below(world)));
  if (fault.other == fault.rank)
    fault.other = Rank(static_cast<int32_t>(
        (draws.below(world - 1) + 1 + static_cast<uint64_t>(fault.rank.value)) % world));
  if (fault.other == fault.rank) fault.kind = Kind::kKillWorker;
  fault.node =
      Node(static_cast<int32_t>(draws.below(static_cast<uint64_t>(shape.nodes + shape.spares))));
  const bool is_about_agents = fault.kind == Kind::kCutNodes || fault.kind == Kind::kIsolateNode;
  if (is_about_agents)
    fault.peer =
        Node(static_cast<int32_t>(draws.below(static_cast<uint64_t>(shape.nodes + shape.spares))));
  if (fault.kind >= Kind::kCutLine && !is_about_agents && draws.one_in(4)) fault.node = Node(-1);
  const bool is_about_machine = fault.kind >= Kind::kKillNode && fault.kind <= Kind::kSuspendNode;
  if (shape.has_store && is_about_machine && draws.one_in(2)) fault.node = Node(-1);
  if (fault.kind == Kind::kFillDisk && draws.one_in(2)) fault.rank = Rank(-1);
  if (fault.kind > Kind::kKillNode && fault.kind != Kind::kKillController)
    fault.lasts = random_time(draws);
  if (fault.kind == Kind::kKillNode && draws.one_in(2)) fault.lasts = random_time(draws);
  fault.agent_is_late = fault.kind == Kind::kBreakLine && draws.one_in(2);
  if (fault.kind != Kind::kPause && fault.kind != Kind::kHang && draws.one_in(4)) {
    fault.time = absl::Microseconds(static_cast<int64_t>(draws.below(300000)));
    return fault;
  }
  const PointChoice& point = draws.of(points());
  fault.point = point.name;
  // Where gradients are kept no step is run again, but updates are made.
  if (strategy_of(shape.strategy).keeps_gradients && fault.point == "catch_up/step")
    fault.point = "catch_up/update";
  fault.passing = 1 + static_cast<int64_t>(draws.below(point.passings));
  if (fault.kind == Kind::kKillWorker && draws.one_in(2)) {
    fault.rank = Rank(-1);  // whoever passes
    fault.at_rank = Rank(-1);
  }
  return fault;
}

}  // namespace

RandomSchedule random_schedule(uint64_t seed, const ScheduleOptions& options) {
  Draws draws(seed);
  RandomSchedule schedule;
  schedule.shape = random_shape(seed, draws, options);
  const uint64_t count = 1 + draws.below(static_cast<uint64_t>(std::max(1, options.faults_max)));
  for (uint64_t i = 0; i < count; ++i) {
    SimulatedFault fault = random_fault(draws, schedule.shape, options);
    schedule.faults.push_back(fault);
    if (fault.kind == SimulatedFault::Kind::kCorruptCopies && draws.one_in(2)) {
      fault.kind = SimulatedFault::Kind::kKillWorker;  // else damaged copies are hardly ever needed
      schedule.faults.push_back(fault);
    }
    if (fault.kind == SimulatedFault::Kind::kFillDisk && fault.rank.value < 0 &&
        schedule.shape.has_store && options.with_node_kills) {
      fault.kind = SimulatedFault::Kind::kKillNode;  // else a term is hardly ever refused
      fault.node = Node(-1);
      fault.lasts = absl::ZeroDuration();
      schedule.faults.push_back(fault);
    }
  }
  return schedule;
}

}  // namespace evermoe
