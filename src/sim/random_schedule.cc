#include "sim/random_schedule.h"

#include <algorithm>
#include <utility>

#include "sim/hash/hash_mix.h"
#include "sim/seeded_events.h"

namespace evermoe {
namespace {

using Kind = SimulatedFault::Kind;

// Counter-based: the n-th draw of a seed. The seed is mixed first, or neighbouring seeds would
// share their draws.
class Draws {
 public:
  explicit Draws(uint64_t seed) : next_(mix(seed)) {}
  uint64_t below(uint64_t bound) {
    return mix(std::exchange(next_, next_ + kSplitMixStep)) % bound;
  }
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
  if (strategy_of(strategy).saves_few_experts) {
    HashModelOptions& model = shape.model;
    model.save_every = 1 + static_cast<int64_t>(model.seed % 2);
    model.experts_saved = 1 + shape.copies % 2;
    model.experts_in_memory = std::max(model.experts_saved, model.micro_batches % 5);
    if (shape.nodes % 2 == 0) model.expert_selection = ExpertSelection::kLoadAware;
    if (shape.spares == 0) model.plt_max = 0.2;
  }
  // Without copies there is nothing but the disk to go back to.
  if (!strategy_of(strategy).keeps_copies()) shape.restart_all_allowed = true;
}

// Without a draw, so that the same seeds give the same faults. A node for every role where a loss
// is to cost a lane.
void make_elastic(uint64_t seed, int world, SimulatedShape& shape) {
  if (strategy_of(shape.strategy).saves_few_experts) return;
  shape.elastic.is_enabled = true;
  if (seed % 4 != 0) shape.nodes = world;
  if (seed % 2 == 0) shape.spares = 0;
  if (seed % 5 < 2) shape.elastic.grow_wait = absl::Milliseconds(20);
  if (seed % 7 == 2) shape.elastic.widths = {1, 3};
}

// Likewise.
void move_experts(uint64_t seed, SimulatedShape& shape) {
  if (strategy_of(shape.strategy).saves_few_experts) return;
  shape.model.move_experts_every = 2 + static_cast<int64_t>(seed % 4);
}

// Likewise.
void keep_standbys(uint64_t seed, SimulatedShape& shape) {
  shape.standbys = 1 + static_cast<int>(seed % 2);
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
  if (options.with_elastic_jobs && seed % 3 == 0) make_elastic(seed / 3, world, shape);
  if (seed % 4 == 1) move_experts(seed / 4, shape);
  if (options.with_standbys && seed % 5 < 2) keep_standbys(seed / 5, shape);
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

std::vector<Kind> control_kinds(const SimulatedShape& shape, const ScheduleOptions& options) {
  std::vector<Kind> kinds = {Kind::kStopAgent, Kind::kStopNode, Kind::kStopController,
                             Kind::kCutLine,   Kind::kMuteNode, Kind::kDeafNode,
                             Kind::kSlowLine};
  if (options.with_line_breaks) kinds.insert(kinds.end(), 2, Kind::kBreakLine);
  if (options.with_host_changes) kinds.insert(kinds.end(), 2, Kind::kChangeHost);
  if (options.with_agent_cuts) kinds.insert(kinds.end(), {Kind::kCutNodes, Kind::kIsolateNode});
  if (shape.has_store) {
    kinds.insert(
        kinds.end(),
        {Kind::kKillNode, Kind::kKillNode, Kind::kSuspendNode, Kind::kSuspendNode, Kind::kStopNode,
         Kind::kStopAgent, Kind::kCutStore, Kind::kCutStore, Kind::kMuteStore, Kind::kStopStore});
  }
  return kinds;
}

// What the fault is drawn from; what is there several times comes more often.
std::vector<Kind> fault_kinds(const SimulatedShape& shape, const ScheduleOptions& options) {
  std::vector<Kind> kinds(5, Kind::kKillWorker);
  if (options.with_node_kills) kinds.insert(kinds.end(), 2, Kind::kKillNode);
  if (options.with_doomed_roles) kinds.push_back(Kind::kDoomRole);
  if (shape.standbys > 0) kinds.push_back(Kind::kKillStandby);
  if (options.with_controller_kills) kinds.push_back(Kind::kKillController);
  if (options.with_stops) kinds.push_back(Kind::kStopWorker);
  kinds.push_back(Kind::kPause);
  kinds.push_back(Kind::kHang);
  if (options.with_cuts) kinds.push_back(Kind::kCut);
  if (options.with_corruption) kinds.insert(kinds.end(), 2, Kind::kCorruptCopies);
  if (options.with_control_faults) {
    const std::vector<Kind> more = control_kinds(shape, options);
    kinds.insert(kinds.end(), more.begin(), more.end());
  }
  if (options.with_disk_faults && shape.model.save_every > 0)
    kinds.insert(kinds.end(), 2, Kind::kFillDisk);
  if (options.with_worker_cuts) {
    kinds.insert(kinds.end(),
                 {Kind::kCutWorkers, Kind::kCutWorkers, Kind::kMuteWorkers, Kind::kUnplugNode});
  }
  return kinds;
}

// Two different ones of `count`, or twice the only one.
std::pair<int32_t, int32_t> draw_pair(Draws& draws, uint64_t count) {
  const uint64_t one = draws.below(count);
  const uint64_t other = count == 1 ? one : (one + 1 + draws.below(count - 1)) % count;
  return {static_cast<int32_t>(one), static_cast<int32_t>(other)};
}

// Whom the fault hits. Where only one could be cut from itself, a worker is killed instead.
void draw_target(Draws& draws, const SimulatedShape& shape, SimulatedFault& fault) {
  uint64_t world = 0;
  for (const int width : shape.lanes) world += static_cast<uint64_t>(width);
  const auto [rank, other] = draw_pair(draws, world);
  fault.rank = Rank(rank);
  fault.other = Rank(other);
  const auto [node, peer] =
      draw_pair(draws, static_cast<uint64_t>(shape.nodes) + static_cast<uint64_t>(shape.spares));
  fault.node = Node(node);
  fault.peer = Node(peer);
  const bool is_between_nodes = fault.kind >= Kind::kCutNodes;
  if ((fault.kind == Kind::kCut && rank == other) || (is_between_nodes && node == peer))
    fault.kind = Kind::kKillWorker;
  if (fault.kind >= Kind::kCutLine && !is_between_nodes && draws.one_in(4)) fault.node = Node(-1);
  const bool is_about_machine = fault.kind >= Kind::kKillNode && fault.kind <= Kind::kSuspendNode;
  if (shape.has_store && is_about_machine && draws.one_in(2)) fault.node = Node(-1);
  if (fault.kind == Kind::kFillDisk && draws.one_in(2)) fault.rank = Rank(-1);
}

SimulatedFault random_fault(Draws& draws, const SimulatedShape& shape,
                            const ScheduleOptions& options) {
  SimulatedFault fault;
  fault.kind = draws.of(fault_kinds(shape, options));
  draw_target(draws, shape, fault);
  if (fault.kind > Kind::kKillNode && fault.kind != Kind::kKillController)
    fault.lasts = random_time(draws);
  if (fault.kind == Kind::kKillNode && draws.one_in(2)) fault.lasts = random_time(draws);
  fault.agent_is_late = fault.kind == Kind::kBreakLine && draws.one_in(2);
  fault.with_agent = fault.kind == Kind::kUnplugNode && draws.one_in(2);
  if (fault.kind != Kind::kPause && fault.kind != Kind::kHang && draws.one_in(4)) {
    fault.time = absl::Microseconds(static_cast<int64_t>(draws.below(300000)));
    return fault;
  }
  const PointChoice& point = draws.of(points());
  fault.point = point.name;
  // Where gradients are kept no step is run again, but updates are made.
  if (strategy_of(shape.strategy).keeps_gradients() && fault.point == "catch_up/step")
    fault.point = "catch_up/update";
  fault.passing = 1 + static_cast<int64_t>(draws.below(point.passings));
  if (fault.kind == Kind::kKillWorker && draws.one_in(2)) {
    fault.rank = Rank(-1);  // whoever passes
    fault.at_rank = Rank(-1);
  }
  return fault;
}

}  // namespace

ScheduleOptions playable_schedules() {
  ScheduleOptions options;
  options.with_doomed_roles = false;
  options.with_corruption = false;
  options.with_store = false;
  options.with_disk_faults = false;
  options.with_line_breaks = false;
  options.with_host_changes = false;
  options.with_agent_cuts = false;
  options.with_standbys = false;
  options.with_moves = false;
  options.with_leavers = false;
  options.with_drains = false;
  options.with_stragglers = false;
  options.with_slow_links = false;
  options.with_elastic_jobs = false;  // jobs of real machines say so in their configuration
  return options;
}

int64_t usual_passings(const std::string& point) {
  const auto found = std::find_if(points().begin(), points().end(),
                                  [&](const PointChoice& choice) { return choice.name == point; });
  if (found != points().end()) return static_cast<int64_t>(found->passings);
  return point == "catch_up/update" ? usual_passings("catch_up/step") : 0;
}

RandomSchedule random_schedule(uint64_t seed, const ScheduleOptions& options) {
  Draws draws(seed);
  RandomSchedule schedule;
  schedule.shape = random_shape(seed, draws, options);
  const uint64_t count = 1 + draws.below(static_cast<uint64_t>(std::max(1, options.faults_max)));
  for (uint64_t i = 0; i < count; ++i) {
    SimulatedFault fault = random_fault(draws, schedule.shape, options);
    schedule.faults.push_back(fault);
    if (fault.kind == Kind::kCorruptCopies && draws.one_in(2)) {
      fault.kind = Kind::kKillWorker;  // else damaged copies are hardly ever needed
      schedule.faults.push_back(fault);
    }
    if (fault.kind == Kind::kFillDisk && fault.rank.value < 0 && schedule.shape.has_store &&
        options.with_node_kills) {
      fault.kind = Kind::kKillNode;  // else a term is hardly ever refused
      fault.node = Node(-1);
      fault.lasts = absl::ZeroDuration();
      schedule.faults.push_back(fault);
    }
  }
  if (options.with_moves && seed % 3 == 1 && strategy_of(options.strategy).keeps_copies())
    move_roles(seed / 3, schedule);
  if (options.with_leavers && seed % 7 == 3) take_nodes_away(seed / 7, schedule);
  if (options.with_drains && seed % 11 == 6) drain_job(seed / 11, schedule);
  if (options.with_stragglers && seed % 5 == 2 && strategy_of(options.strategy).keeps_copies())
    slow_down(seed / 5, schedule);
  if (options.with_slow_links && seed % 5 == 4 && schedule.shape.nodes > 1)
    slow_a_link(seed / 5, schedule);
  return schedule;
}

}  // namespace evermoe
