#include "sim/simulated_shape.h"

#include <algorithm>

namespace evermoe {
namespace {

ControllerOptions controller_options(const SimulatedShape& shape) {
  ControllerOptions options;
  options.nodes = shape.nodes;
  options.spares = shape.spares;
  options.standbys = shape.standbys;
  options.copies = shape.copies;
  options.strategy = strategy_of(shape.strategy);
  options.steps = Step(shape.model.steps);
  options.restart_all_allowed = shape.restart_all_allowed;
  options.elastic = shape.elastic;
  options.stragglers = shape.stragglers;
  options.expected_move = shape.expected_move;
  options.relief_look = absl::Milliseconds(20);
  options.adoption = absl::Milliseconds(200);
  options.grace = absl::Milliseconds(50);
  options.hosts_may_change = true;
  options.host_answer_max = absl::Milliseconds(500);
  if (shape.lines_may_break) options.others_wait = absl::Milliseconds(200);
  options.start_max = absl::Seconds(2);
  options.report_max = absl::Milliseconds(500);
  options.copying_max = absl::Milliseconds(500);
  options.silence_max = absl::Milliseconds(450);
  options.goes_on_max = absl::Seconds(1);
  options.step_max = absl::Milliseconds(600);
  options.load_max = absl::Milliseconds(900);
  options.probe_min = absl::Milliseconds(200);
  options.backoff = absl::Milliseconds(10);
  options.backoff_max = absl::Milliseconds(300);
  options.settles_after = absl::Milliseconds(50);
  return options;
}

}  // namespace

ControlPlaneOptions plane_options(const SimulatedShape& shape) {
  ControlPlaneOptions options;
  options.controller = controller_options(shape);
  options.relay.beat = options.agent.beat = absl::Milliseconds(50);
  options.relay.silence_max = options.agent.silence_max = absl::Seconds(1);
  options.relay.own_standstill = options.agent.own_standstill = absl::Milliseconds(200);
  options.relay.return_max = shape.lines_may_break ? absl::Milliseconds(60) : absl::ZeroDuration();
  options.relay.cut_off_max = absl::Seconds(6);
  options.relay.leave_grace = absl::Milliseconds(20);
  options.relay.plan_branches = 1;
  options.relay.plan_patience = absl::Milliseconds(6);
  options.relay.plan_patience_more = absl::Milliseconds(3);
  if (shape.asks_partners) options.controller.network_max = absl::Milliseconds(150);
  options.relay.network = {.answer_max = absl::Milliseconds(100),
                           .pauses = {.first = absl::Milliseconds(100),
                                      .longest = absl::Milliseconds(500),
                                      .of_fit = absl::Milliseconds(500)}};
  options.agent.retry = absl::Milliseconds(5);
  options.agent.registering_max = absl::Milliseconds(100);
  options.agent.away_max = absl::Seconds(30);
  options.ends_lost_nodes = shape.ends_lost_nodes;
  options.has_store = shape.has_store;
  options.late_node = shape.late_node;
  options.late = shape.late;
  options.candidate.election.ttl = options.store.ttl = absl::Milliseconds(500);
  options.candidate.election.margin = absl::Milliseconds(100);
  options.candidate.election.keep = absl::Milliseconds(100);
  options.candidate.election.look = absl::Milliseconds(50);
  options.candidate.election.retry = absl::Milliseconds(25);
  options.candidate.answer_max = absl::Milliseconds(100);
  options.candidate.answer_min = absl::Milliseconds(2);
  return options;
}

MemberOptions member_options(const SimulatedShape& shape) {
  MemberOptions options;
  options.strategy = strategy_of(shape.strategy);
  options.strategy.captures.slots = shape.window;
  // As a worker does: longer windows would be cut before they are complete.
  if (shape.model.move_experts_every > 0)
    options.strategy.captures.slots_max = static_cast<int>(shape.model.move_experts_every);
  options.strategy.captures.period = std::max(shape.period, shape.window);
  options.ordering = shape.ordering;
  if (shape.changes_windows) {
    options.wanted_slots = [asked = 0](const OperatorOrdering&) mutable {
      return 1 + (++asked * 7 / 3) % 4;
    };
  }
  options.probes = shape.probes;
  options.log_bytes_max = shape.log_bytes_max;
  options.snapshot_bytes_max = shape.snapshot_bytes_max;
  options.copies.chunk_bytes_max = shape.chunk_bytes_max;
  options.copies.bytes_per_second = shape.copy_bytes_per_second;
  options.ask_again = absl::Milliseconds(100);
  options.hand_over_silence_max = absl::Milliseconds(200);
  return options;
}

}  // namespace evermoe
