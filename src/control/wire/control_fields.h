// Which fields of a message go over the wire, in which order. Inside the codec only.
#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>

#include "control/wire/control_messages.h"

namespace evermoe::control_fields {

// M is T, const or not: one list serves reading and writing.
template <typename M, typename T>
concept Is = std::same_as<std::remove_const_t<M>, T>;

// ---- recovery/protocol/messages.h

auto fields(Is<StopOrder> auto& m) { return std::tie(m.view, m.incident, m.handed_over); }
auto fields(Is<PeerAddress> auto& m) { return std::tie(m.address, m.since); }
auto fields(Is<Plan> auto& m) {
  return std::tie(m.view, m.table, m.restart_all, m.newest, m.record_source, m.state, m.base,
                  m.window, m.rolled_back, m.renews, m.rejoining, m.stage_epochs, m.membership,
                  m.sources, m.holders, m.reasons, m.incident);
}
auto fields(Is<MembershipChange> auto& m) {
  return std::tie(m.step, m.resting, m.nodes, m.cause, m.view);
}
auto fields(Is<ReleaseOrder> auto&) { return std::tie(); }
auto fields(Is<LeaveOrder> auto& m) { return std::tie(m.view, m.joiner, m.stop_at, m.is_off); }
auto fields(Is<HeldWindow> auto& m) { return std::tie(m.owner, m.window, m.gradients); }
auto fields(Is<WholeState> auto& m) { return std::tie(m.owner, m.state); }
auto fields(Is<Report> auto& m) {
  return std::tie(m.view, m.rank, m.stage_epoch, m.is_broken, m.has_state, m.held_state,
                  m.logged_since, m.catches_up_to, m.awaits_state, m.newest, m.state, m.base,
                  m.complete_window, m.held, m.whole_states, m.plan_view, m.membership,
                  m.experts_moved);
}
auto fields(Is<Trouble> auto& m) {
  return std::tie(m.view, m.stage_epoch, m.rank, m.inside_stage, m.accused, m.copies_unusable,
                  m.what);
}
auto fields(Is<Milestone> auto& m) {
  return std::tie(m.view, m.rank, m.kind, m.recomputed_steps, m.sources, m.step);
}
auto fields(Is<Progress> auto& m) {
  return std::tie(m.view, m.rank, m.newest, m.complete_window, m.log_bytes, m.snapshot_bytes);
}
auto fields(Is<Finished> auto& m) { return std::tie(m.rank, m.step); }
auto fields(Is<CopiesGiven> auto& m) { return std::tie(m.view, m.rank); }
auto fields(Is<HandedOver> auto& m) { return std::tie(m.view, m.rank, m.state, m.bytes); }
auto fields(Is<CannotLeave> auto& m) { return std::tie(m.view, m.rank, m.why); }
auto fields(Is<Connected> auto& m) { return std::tie(m.view, m.rank, m.connections); }
auto fields(Is<Examined> auto& m) {
  return std::tie(m.rank, m.step, m.node, m.is_reproduced, m.what);
}

// ---- controller_interface.h

auto fields(Is<MemberJoined> auto& m) {
  return std::tie(m.rank, m.since, m.node, m.address, m.newest_view, m.is_open, m.has_finished,
                  m.stage_epoch, m.newest, m.run, m.lanes, m.arithmetic);
}
auto fields(Is<MemberSaid> auto& m) { return std::tie(m.rank, m.since, m.message); }
auto fields(Is<StepTime> auto& m) { return std::tie(m.step, m.computing, m.work); }
auto fields(Is<LinkTime> auto& m) {
  return std::tie(m.to, m.round_trip, m.bulk, m.messages, m.bulks);
}
auto fields(Is<MemberAlive> auto& m) {
  return std::tie(m.rank, m.since, m.entered, m.waits, m.step_times, m.link_times);
}
auto fields(Is<WorkerEnded> auto& m) {
  return std::tie(m.rank, m.since, m.node, m.how, m.is_clean, m.bad_input, m.is_hopeless,
                  m.is_doubted);
}
auto fields(Is<StartWorker> auto& m) { return std::tie(m.node, m.rank, m.since, m.incident); }
auto fields(Is<KillWorker> auto& m) {
  return std::tie(m.node, m.rank, m.since, m.why, m.becomes_standby);
}
auto fields(Is<SendOrder> auto& m) { return std::tie(m.rank, m.since, m.message); }
auto fields(Is<StandbysKept> auto& m) {
  return std::tie(m.node, m.warming, m.warm, m.failure, m.warm_for);
}
auto fields(Is<KeepStandbys> auto& m) { return std::tie(m.node, m.count, m.roles); }
auto fields(Is<JoinerWanted> auto& m) {
  return std::tie(m.node, m.rank, m.view, m.next, m.leaver, m.is_off);
}
auto fields(Is<JoinerReady> auto& m) { return std::tie(m.node, m.rank, m.joiner); }
auto fields(Is<StragglerFound> auto& m) {
  return std::tie(m.rank, m.node, m.factor, m.step, m.is_over);
}
auto fields(Is<SlowLinkFound> auto& m) {
  return std::tie(m.from, m.to, m.factor, m.step, m.is_over);
}
auto fields(Is<LanesChanged> auto& m) {
  return std::tie(m.step, m.lanes, m.nodes, m.cause, m.is_base);
}
auto fields(Is<ConfirmTerm> auto& m) { return std::tie(m.losses); }
auto fields(Is<TermHeld> auto& m) { return std::tie(m.losses); }
auto fields(Is<MoveWanted> auto& m) { return std::tie(m.roles, m.to, m.drained); }
auto fields(Is<MoveAnswer> auto& m) { return std::tie(m.accepted, m.reason); }
auto fields(Is<EndJob> auto& m) {
  return std::tie(m.ok, m.bad_input, m.reason, m.is_hopeless, m.is_drained, m.is_dismissal);
}
auto fields(Is<JobEvent> auto& m) { return std::tie(m.text); }

// ---- plan_update.h

template <typename Entry>
auto fields(RankEntries<Entry>& m) {
  return std::tie(m.size, m.ranks, m.entries);
}
template <typename Entry>
auto fields(const RankEntries<Entry>& m) {
  return std::tie(m.size, m.ranks, m.entries);
}
auto fields(Is<PlanUpdate::Addressee> auto& m) { return std::tie(m.start, m.rank, m.since); }
auto fields(Is<PlanUpdate> auto& m) {
  return std::tie(m.base, m.rest, m.table, m.holders, m.sources, m.to);
}

// ---- worker_report.h

auto fields(Is<ProtectionState> auto& m) {
  return std::tie(m.window_steps, m.complete_window, m.log_bytes, m.snapshot_bytes,
                  m.captured_bytes, m.read_wait_seconds, m.copy_wait_seconds, m.copying_seconds);
}
auto fields(Is<ExpertMove> auto& m) {
  return std::tie(m.step, m.moved_bytes, m.imbalance_before, m.imbalance_after, m.pause_seconds);
}
auto fields(Is<TrainedLanes> auto& m) { return std::tie(m.step, m.lanes); }
auto fields(Is<WorkerReport> auto& m) {
  return std::tie(m.kind, m.rank, m.step, m.text, m.accused, m.bad_input, m.is_hopeless,
                  m.is_doubted, m.loss, m.gradient_norm, m.learning_rate, m.load_imbalance,
                  m.tokens_per_second, m.lost_token_share, m.protection, m.validation_loss,
                  m.validation_accuracy, m.drained, m.move, m.trained_on);
}

// ---- control_messages.h

auto fields(Is<StarvedWorker> auto& m) { return std::tie(m.rank, m.since, m.starved); }
auto fields(Is<AliveWorker> auto& m) { return std::tie(m.start, m.sign); }
auto fields(Is<Beat> auto& m) { return std::tie(m.late, m.starved, m.alive); }
auto fields(Is<WorkerHello> auto& m) { return std::tie(m.pid); }
auto fields(Is<AgentHello> auto& m) {
  return std::tie(m.node, m.pid, m.host, m.lines, m.workers, m.incarnation);
}
auto fields(Is<RunHello> auto&) { return std::tie(); }
auto fields(Is<FolderTerm> auto& m) { return std::tie(m.number, m.owner, m.job, m.hosts_before); }
auto fields(Is<Welcome> auto& m) { return std::tie(m.life, m.term, m.wall_clock); }
auto fields(Is<AgentReady> auto& m) {
  return std::tie(m.arithmetic, m.plan, m.complaints, m.standbys, m.is_draining);
}
auto fields(Is<PlanWanted> auto& m) { return std::tie(m.plan); }
auto fields(Is<FetchPlan> auto& m) { return std::tie(m.plan, m.from, m.patience, m.rest); }
auto fields(Is<PlanHeld> auto& m) { return std::tie(m.plan); }
auto fields(Is<AskPartners::Partner> auto& m) { return std::tie(m.node, m.lines); }
auto fields(Is<AskPartners> auto& m) { return std::tie(m.round, m.answer_max, m.partners); }
auto fields(Is<PartnersAsked::Silent> auto& m) { return std::tie(m.node, m.why); }
auto fields(Is<PartnersAsked> auto& m) { return std::tie(m.round, m.silent); }
auto fields(Is<PartnerQuestion> auto& m) { return std::tie(m.asked, m.filling); }
auto fields(Is<PartnerAnswer> auto& m) { return std::tie(m.node, m.filling); }
auto fields(Is<PlanName> auto& m) {
  return std::tie(m.view, m.fingerprint.high, m.fingerprint.low);
}
auto fields(Is<WorkerStarted> auto& m) { return std::tie(m.rank, m.since, m.pid, m.is_standby); }
auto fields(Is<StandbyWarm> auto&) { return std::tie(); }
auto fields(Is<BecomeStandby> auto& m) { return std::tie(m.log_path); }
auto fields(Is<TakeRole> auto& m) { return std::tie(m.start, m.rank, m.since, m.term, m.log_path); }
auto fields(Is<WorkerLogTail> auto& m) { return std::tie(m.rank, m.path, m.lines); }
auto fields(Is<Drain> auto&) { return std::tie(); }
auto fields(Is<RoleProcess> auto& m) { return std::tie(m.rank, m.pid); }
auto fields(Is<NodeLost> auto& m) { return std::tie(m.node, m.agent, m.why); }
auto fields(Is<RecoveryNote> auto& m) { return std::tie(m.index, m.failed, m.record); }
auto fields(Is<MoveRecord> auto& m) {
  return std::tie(m.roles, m.from, m.to, m.cause, m.state, m.reason, m.step, m.bytes,
                  m.connections_opened, m.asked, m.warm, m.copied, m.stopped, m.handed_over,
                  m.planned, m.restored, m.resumed, m.usual_step);
}
auto fields(Is<MoveNote> auto& m) { return std::tie(m.index, m.record); }
auto fields(Is<RecoveryRecord> auto& m) {
  return std::tie(m.incident, m.roles, m.standby_roles, m.causes, m.rolled_back_stages,
                  m.restarted_all, m.restarted_from, m.restarts, m.reasons, m.sources, m.views,
                  m.step, m.recomputed_steps, m.survivor_recomputed_steps, m.noticed, m.planned,
                  m.restored, m.caught_up, m.verified, m.resumed);
}
auto fields(Is<OperatorHello> auto&) { return std::tie(); }
auto fields(Is<NodeLeaves> auto&) { return std::tie(); }
auto fields(Is<SurvivableLosses> auto& m) {
  return std::tie(m.is_known, m.is_protected, m.any, m.fatal, m.fatal_sets);
}
auto fields(Is<NodeStatus> auto& m) {
  return std::tie(m.node, m.host, m.state, m.silent, m.complaints, m.warm_standbys);
}
auto fields(Is<RoleStatus> auto& m) {
  return std::tie(m.rank, m.name, m.node, m.pid, m.phase, m.slow_by);
}
auto fields(Is<SlowLink> auto& m) { return std::tie(m.from, m.to, m.factor); }
auto fields(Is<JobStatus> auto& m) {
  return std::tie(m.life, m.term, m.view, m.is_open, m.is_draining, m.step, m.steps, m.window,
                  m.durable, m.failures, m.median_step, m.elapsed, m.ettr, m.survives, m.experts,
                  m.move, m.nodes, m.roles, m.slow_links, m.links_known);
}
auto fields(Is<Envelope> auto& m) { return std::tie(m.start, m.message); }

}  // namespace evermoe::control_fields
