#include "recovery/member/member.h"

#include <utility>

#include "comm/transport/seated_transport.h"
#include "recovery/stage_trainer.h"

namespace evermoe {
namespace {

enum : uint32_t { kTrainingSignal = 1 };

CopyGateOptions gate_of(const MemberOptions& options) {
  CopyGateOptions gate = options.gate;
  gate.keeps_to_gaps = options.strategy.sends_in_gaps;
  return gate;
}

}  // namespace

Member::Member(const Topology& topology, Transport& transport, StageTrainer& trainer,
               ControlLink& control, Clock& clock, MemberOptions options, MemberObserver observer)
    : topology_(topology),
      transport_(transport),
      world_transport_(transport, kWorldGroups, clock, options.sent),
      trainer_(trainer),
      control_(control),
      options_(std::move(options)),
      observer_(std::move(observer)),
      rank_(transport.rank()),
      wake_training_(transport, kTrainingSignal),
      sender_(world_transport_,
              [this](View view, const absl::Status& status) { troubles_.report(view, status); }),
      probe_sender_(transport, [](View, const absl::Status&) {}),
      views_(wake_training_, options_.patience, options_.ask_again),
      troubles_(rank_, views_, control),
      memory_(options_.log_bytes_max, options_.snapshot_bytes_max),
      window_(trainer, options_.ordering),
      exchange_(exchange_parts(trainer)),
      own_memory_(rank_, memory_.store),
      peer_memory_({rank_, sender_, transport, clock}, gate_of(options_)),
      joiner_memory_(joiner_parts(clock), gate_of(options_)),
      copies_(copies_parts(trainer, clock), options_.copies),
      timer_(clock, [this] { return time_waited(); }),
      commits_(commit_parts()),
      hand_over_(hand_over_parts(trainer)),
      fetch_({rank_, topology, memory_.store, sender_, views_, troubles_, control_, refused_,
              counts_}),
      gradients_(gradient_parts(trainer)),
      restorer_(restorer_parts(trainer)),
      program_(program_parts(trainer)),
      answers_({rank_, views_, memory_, copies_, peer_memory_, joiner_memory_, exchange_, sender_,
                refused_, wake_training_, options_.is_rehearsal}),
      follower_(follower_parts(topology, clock)),
      probes_(
          clock, options_.sent,
          [this](Rank to, MessageKind kind, MessageBytes bytes) {
            send_probe(to, kind, std::move(bytes));
          },
          options_.probes),
      service_({transport, clock, views_, copies_, follower_, answers_, probes_}) {}

BoundaryExchange::Dependencies Member::exchange_parts(StageTrainer& trainer) {
  return {.transport = world_transport_,
          .sender = sender_,
          .views = views_,
          .log = memory_.log,
          .received = memory_.received,
          .witnesses = witnesses_,
          .report_trouble = [this](View view,
                                   const absl::Status& status) { troubles_.report(view, status); },
          .idle_work = [&trainer] { return trainer.do_idle_work(); }};
}

JoinerMemory::Dependencies Member::joiner_parts(Clock& clock) {
  return {.rank = rank_,
          .seat = other_process(rank_, topology_.world_size()),
          .transport = transport_,
          .store = memory_.store,
          .control = control_,
          .clock = clock,
          .silence_max = options_.hand_over_silence_max};
}

HandOver::Dependencies Member::hand_over_parts(StageTrainer& trainer) {
  return {.rank = rank_,
          .keeps_gradients = options_.strategy.keeps_gradients(),
          .leave = leave_,
          .views = views_,
          .control = control_,
          .trainer = trainer,
          .copies = copies_,
          .joiner = joiner_memory_,
          .window = window_,
          .timer = timer_,
          .commits = commits_};
}

SnapshotCopies::Dependencies Member::copies_parts(StageTrainer& trainer, Clock& clock) {
  return {.rank = rank_,
          .trainer = trainer,
          .schedule = window_.schedule(),
          .store = memory_.store,
          .sender = sender_,
          .views = views_,
          .control = control_,
          .wake_training = wake_training_,
          .clock = clock,
          .destinations = {&own_memory_, &peer_memory_, &joiner_memory_}};
}

CommitAgreement::Dependencies Member::commit_parts() {
  return {.transport = world_transport_,
          .world_size = topology_.world_size(),
          .sender = sender_,
          .views = views_,
          .records = memory_.records,
          .troubles = troubles_,
          .settle = [this] { return settle(); },
          .vote = [this](bool ends_window) { return vote(ends_window); },
          .may_move_experts = [this](Step state) { return trainer_.may_move_experts(state); },
          .on_agreed = [this](View view, Commit commit,
                              const Record& record) { on_agreed(view, commit, record); },
          .deadline = kCallMax};
}

GradientRestorer::Dependencies Member::gradient_parts(StageTrainer& trainer) {
  return {.rank = rank_,
          .trainer = trainer,
          .commits = commits_,
          .memory = memory_,
          .copies = copies_,
          .window = window_,
          .fetch = fetch_};
}

Restorer::Dependencies Member::restorer_parts(StageTrainer& trainer) {
  return {.rank = rank_,
          .topology = topology_,
          .trainer = trainer,
          .views = views_,
          .control = control_,
          .troubles = troubles_,
          .commits = commits_,
          .memory = memory_,
          .copies = copies_,
          .window = window_,
          .fetch = fetch_,
          .gradients = gradients_,
          .counts = counts_,
          .witnesses = witnesses_,
          .bytes_at_once = options_.copies.chunk_bytes_max,
          .keeps_gradients = options_.strategy.keeps_gradients()};
}

RankProgram::Dependencies Member::program_parts(StageTrainer& trainer) {
  return {.rank = rank_,
          .topology = topology_,
          .options = options_,
          .observer = observer_,
          .trainer = trainer,
          .views = views_,
          .control = control_,
          .troubles = troubles_,
          .memory = memory_,
          .copies = copies_,
          .exchange = exchange_,
          .window = window_,
          .timer = timer_,
          .commits = commits_,
          .hand_over = hand_over_,
          .restorer = restorer_,
          .gradients = gradients_,
          .counts = counts_};
}

OrderFollower::Dependencies Member::follower_parts(const Topology& topology, Clock& clock) {
  return {.rank = rank_,
          .stage = topology.role_of(rank_).stage,
          .clock = clock,
          .keeps_copies = options_.strategy.keeps_copies(),
          .transport = transport_,
          .wake_training = wake_training_,
          .sender = sender_,
          .orders = orders_,
          .views = views_,
          .leave = leave_,
          .control = control_,
          .troubles = troubles_,
          .memory = memory_,
          .copies = copies_,
          .peers = peer_memory_,
          .joiner = joiner_memory_,
          .exchange = exchange_,
          .on_opened = [this] { service_.on_opened(); }};
}

// Gradients have to be where a plan looks for them. A new holder lacks windows, too, and for these
// nobody waits: whether the step is committed or not, a loss meanwhile costs the same.
absl::Status Member::settle() {
  return options_.strategy.keeps_gradients() ? copies_.wait_settled() : absl::OkStatus();
}

absl::Duration Member::time_waited() const {
  return options_.time_waited() + world_transport_.time_waited() +
         absl::Seconds(copies_.seconds_waited_for_reads() + copies_.seconds_waited_for_copies());
}

WindowVote Member::vote(bool ends_window) const {
  const bool keeps_copies = options_.strategy.keeps_copies();
  // A role that rests captures nothing, and no window waits for it.
  const Step complete =
      trainer_.membership().rests(rank_) ? Step(INT64_MAX) : copies_.complete_window();
  return {.complete_window = keeps_copies ? complete : Step(-1),
          .wanted_slots = ends_window ? options_.wanted_slots(window_.ordering()) : 0,
          .slots_max = options_.strategy.captures.slots_max};
}

void Member::on_agreed(View view, Commit commit, const Record& record) {
  follower_.on_recovered();
  control_.send(Progress{view, rank_, commit, record.complete_window, memory_.log.bytes(),
                         memory_.store.bytes()});
  tell_connections(view);
}

// Not when a job begins, where everybody would have something to tell.
void Member::tell_connections(View view) {
  const int64_t made = transport_.connections_opened();
  const int64_t since = made - std::exchange(connections_then_, made);
  if (std::exchange(committed_in_, view) == view || since == 0) return;
  const PlanPointer plan = views_.plan();
  if (plan != nullptr && !plan->rolled_back.empty()) control_.send(Connected{view, rank_, since});
}

void Member::send_probe(Rank to, MessageKind kind, MessageBytes bytes) {
  probe_sender_.reap();
  probe_sender_.send(to, View(0), kind, std::move(bytes));
}

absl::Status Member::train() {
  const absl::Status status = program_.run();
  views_.end(status);
  sender_.wake_service();
  return status;
}

absl::Status Member::serve() {
  const absl::Status status = service_.run();
  views_.end(status);
  return status;
}

// What finds no room would not have to be fetched, and that is all.
void Member::inherit(std::vector<Chunk> chunks) {
  for (Chunk& chunk : chunks) {
    if (!memory_.store.add(std::move(chunk)).ok()) return;
    restorer_.set_inherits();
  }
}

void Member::receive(ControllerMessage message) {
  enqueue(std::move(message));
  sender_.wake_service();
}

View Member::run() const {
  // All stages begin with it.
  if (views_.is_resuming()) return views_.standing().stage_epoch;
  const auto newest = memory_.records.find(memory_.records.newest());
  if (!newest) return View(0);
  const absl::StatusOr<Record> record = decode_record(*newest);
  return record.ok() ? record->run.view : View(0);
}

void Member::corrupt_copies_at_holders() {
  const PlanPointer plan = views_.plan();
  if (plan == nullptr || plan->holders.empty()) return;
  for (const Rank holder : plan->holders[static_cast<size_t>(rank_.value)]) {
    sender_.send(holder, plan->view, MessageKind::kCorrupt, {});
  }
}

ProtectionState Member::protection_state(const Record& record) const {
  ProtectionState state;
  state.window_steps = static_cast<int>(window_.schedule().rule().period);
  state.complete_window = record.complete_window;
  state.log_bytes = memory_.log.bytes();
  state.snapshot_bytes = memory_.store.bytes();
  state.captured_bytes = captured_bytes();
  state.read_wait_seconds = seconds_waited_for_reads();
  state.copy_wait_seconds = seconds_waited_for_copies();
  state.copying_seconds = absl::ToDoubleSeconds(service_time());
  return state;
}

}  // namespace evermoe
