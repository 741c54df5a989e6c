#include "sim/seeded_events.h"

#include <algorithm>
#include <string>
#include <vector>

namespace evermoe {
namespace {

using Kind = SimulatedFault::Kind;

int32_t roles_in(const SimulatedShape& shape) {
  int32_t roles = 0;
  for (const int width : shape.lanes) roles += width;
  return roles;
}

// One role moves elsewhere; or several do in one switch, each to a spare of its own, or in each
// other's place. Those are far apart, so that they are on different nodes.
MoveWanted wanted_move(uint64_t seed, int32_t world, SimulatedShape& shape) {
  const uint64_t form = seed / 7 % 4;
  const auto first = static_cast<int32_t>(seed % 7);
  if (form < 2) return {.roles = {Rank(first % world)}};
  const int32_t count = std::clamp(world - 2, 2, 2 + static_cast<int32_t>(seed / 2 % 2));
  if (seed % 4 != 0) shape.copies = 2;  // the only holder of a role is often another one of them
  const bool change_places = form == 3;
  shape.nodes = std::max(shape.nodes, change_places ? count : 1);
  if (!change_places) shape.spares = std::max(shape.spares, count);
  MoveWanted wish;
  for (int32_t i = 0; i < count; ++i) {
    wish.roles.push_back(Rank((first + i * world / count) % world));
    wish.to.push_back(Node(change_places ? -1 : shape.nodes + i));
  }
  return wish;
}

// What is said to a node that a role leaves comes late, or what goes from there to a spare one does
// not come.
SimulatedFault cut_off(uint64_t seed, Kind kind, const MoveWanted& wish, int32_t world,
                       const SimulatedShape& shape) {
  const bool is_late = kind == Kind::kDeafNode;
  SimulatedFault fault{.kind = kind};
  fault.node = Node(wish.roles[seed % wish.roles.size()].value * shape.nodes / world);
  fault.peer = Node(shape.nodes);
  fault.lasts = is_late ? absl::Milliseconds(20 + 20 * (seed % 8))
                        : absl::Milliseconds(100 + 100 * (seed % 16));
  fault.point = is_late ? "move/copying" : "move/hand_over";
  fault.passing = 1;
  return fault;
}

}  // namespace

void move_roles(uint64_t seed, RandomSchedule& schedule) {
  const int32_t world = roles_in(schedule.shape);
  schedule.shape.spares = std::max(1, schedule.shape.spares);
  schedule.shape.model.steps += 12;  // or most jobs end before the roles have moved
  SimulatedFault move{.kind = Kind::kMoveRoles};
  move.wish = wanted_move(seed, world, schedule.shape);
  move.point = "step/updated";
  move.passing = 1 + static_cast<int64_t>(seed % 11) * world;
  schedule.faults.push_back(move);
  static const std::vector<Kind> kMeanwhile = {
      Kind::kKillWorker, Kind::kKillController, Kind::kKillNode,  Kind::kPause,
      Kind::kMoveRoles,  Kind::kDeafNode,       Kind::kCutWorkers};
  static const std::vector<std::string> kPoints = {"move/hand_over", "move/handed_over",
                                                   "recovery/plan", "recovery/restored"};
  if (seed % 3 == 0) {
    // A role is lost soon after the other one has moved, whose former process took its log with it.
    SimulatedFault soon{
        .kind = Kind::kKillWorker,
        .rank = Rank((move.wish.roles[0].value + 1 + static_cast<int32_t>(seed % 2)) % world)};
    soon.point = move.point;
    soon.passing = move.passing + (2 + static_cast<int64_t>(seed / 3 % 10)) * world;
    schedule.faults.push_back(soon);
    return;
  }
  SimulatedFault other{.kind = kMeanwhile[seed / 3 % kMeanwhile.size()]};
  if (other.kind == Kind::kDeafNode || other.kind == Kind::kCutWorkers) {
    schedule.faults.push_back(cut_off(seed, other.kind, move.wish, world, schedule.shape));
    return;
  }
  other.rank = seed % 2 == 0 ? Rank(-1) : Rank(static_cast<int32_t>(seed / 2 % 5) % world);
  if (other.kind != Kind::kKillWorker) other.rank = Rank(static_cast<int32_t>(seed % 5) % world);
  if (other.kind == Kind::kMoveRoles) other.wish.roles = {other.rank};
  other.node = Node(other.kind == Kind::kKillNode
                        ? static_cast<int32_t>(seed % 3) % (schedule.shape.nodes + 1)
                        : -1);
  other.point = kPoints[seed / 5 % kPoints.size()];
  other.passing = 1;
  schedule.faults.push_back(other);
}

void take_nodes_away(uint64_t seed, RandomSchedule& schedule) {
  SimulatedShape& shape = schedule.shape;
  shape.model.steps += 10;
  const auto nodes = static_cast<uint64_t>(shape.nodes),
             spares = static_cast<uint64_t>(shape.spares);
  SimulatedFault leaver{.kind = Kind::kLeaveNode};
  leaver.node = Node(static_cast<int32_t>(seed / 3 % (nodes + spares)));
  leaver.time = absl::Milliseconds(20 + 13 * static_cast<int64_t>(seed % 17));
  if (seed % 3 > 0) leaver.lasts = absl::Milliseconds(60 << seed % 5);
  schedule.faults.push_back(leaver);
  static const std::vector<Kind> kMeanwhile = {Kind::kKillNode, Kind::kLeaveNode, Kind::kKillWorker,
                                               Kind::kKillController, Kind::kUnfitNode};
  for (uint64_t i = 0; i < seed / 5 % 4; ++i) {
    SimulatedFault other{.kind = kMeanwhile[(seed / 7 + i * (seed / 11)) % kMeanwhile.size()]};
    other.rank = Rank(static_cast<int32_t>((seed + i) % roles_in(shape)));
    other.node = Node(static_cast<int32_t>((seed / 3 + i + 1) % (nodes + spares)));
    other.time =
        leaver.time + absl::Milliseconds(seed / 13 % 8 * 10 * (i + 1)) - absl::Milliseconds(15);
    if (other.kind == Kind::kUnfitNode) other.lasts = absl::Milliseconds(100 << seed % 4);
    schedule.faults.push_back(other);
  }
}

void drain_job(uint64_t seed, RandomSchedule& schedule) {
  schedule.shape.model.steps += 10;
  SimulatedFault drain{.kind = Kind::kDrainJob};
  drain.time = absl::Milliseconds(20 + 13 * static_cast<int64_t>(seed % 17));
  schedule.faults.push_back(drain);
  static const std::vector<Kind> kMeanwhile = {Kind::kKillWorker, Kind::kKillController,
                                               Kind::kKillWorker, Kind::kKillNode};
  for (uint64_t i = 0; i < seed / 3 % 3; ++i) {
    SimulatedFault other{.kind = kMeanwhile[(seed + i) % kMeanwhile.size()]};
    other.rank = Rank(static_cast<int32_t>(seed / 5 + i) % roles_in(schedule.shape));
    other.node = Node(static_cast<int32_t>(seed / 7 + i) % schedule.shape.nodes);
    other.time = drain.time + absl::Milliseconds(2 * (seed / 11 % 20) * (i + 1));
    schedule.faults.push_back(other);
  }
}

void slow_down(uint64_t seed, RandomSchedule& schedule) {
  const int32_t world = roles_in(schedule.shape);
  SimulatedShape& shape = schedule.shape;
  shape.spares = std::max(1, shape.spares);
  shape.model.steps += 40;
  shape.computing = absl::Milliseconds(4);
  shape.stragglers = {
      .slower_than = 1.5, .for_steps = 6, .moves = seed % 4 != 0, .look = absl::Milliseconds(20)};
  shape.expected_move = {.preparation = absl::Milliseconds(20), .pause = absl::Milliseconds(50)};
  SimulatedFault slow{.kind = Kind::kSlowWorker,
                      .rank = Rank(static_cast<int32_t>(seed % 7) % world)};
  slow.factor = 3;
  slow.time = absl::Milliseconds(60 + static_cast<int64_t>(seed % 5) * 60);
  schedule.faults.push_back(slow);
}

void slow_a_link(uint64_t seed, RandomSchedule& schedule) {
  SimulatedShape& shape = schedule.shape;
  shape.model.steps += 80;
  shape.computing = absl::Milliseconds(4);
  shape.stragglers = {.slower_than = 1.5, .for_steps = 6, .look = absl::Milliseconds(20)};
  shape.probes.pause = shape.probes.pair_pause = absl::Milliseconds(1);
  shape.probes.bulk_pauses = 0;
  const auto nodes = static_cast<uint64_t>(shape.nodes);
  SimulatedFault slow{.kind = Kind::kSlowLink};
  slow.node = Node(static_cast<int32_t>(seed % nodes));
  slow.peer = Node(static_cast<int32_t>((seed + 1 + seed / 7 % (nodes - 1)) % nodes));
  slow.time = absl::Milliseconds(900 + static_cast<int64_t>(seed % 5) * 60);
  schedule.faults.push_back(slow);
}

}  // namespace evermoe
