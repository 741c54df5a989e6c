// The processes of a simulated job that play no role: they wait for one, as worker/worker.cc does.
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "sim/workers/simulated_process.h"

namespace evermoe {
namespace {

constexpr absl::Duration kWarmUpMax = absl::Milliseconds(40);

}  // namespace

pid_t SimulatedWorkers::spawn_standby(Node node, const std::string& agent) {
  Process& process = add_process(node, agent);
  process.standby = std::make_unique<StandbyLine>(*this, process);
  const auto warm_up = absl::Microseconds(static_cast<int64_t>(
      network_.draw(static_cast<uint64_t>(absl::ToInt64Microseconds(kWarmUpMax)))));
  network_.after(absl::ZeroDuration(), [&process, warm_up] {
    if (process.standby != nullptr) process.standby->attach(warm_up);
  });
  return process.pid;
}

// Not from inside its line, which ends here; nor before nothing comes for the role any more.
void SimulatedWorkers::take_role(Process& standby, const TakeRole& role) {
  const auto begin = [this, &standby] {
    if (!standby.was_killed) start(standby);
  };
  network_.after(absl::ZeroDuration(), [this, &standby, role, begin] {
    if (standby.was_killed || standby.standby == nullptr) return;
    standby.standby.reset();
    standby.rank = role.rank;
    standby.since = role.since;
    standby.seat = 0;
    standby.line = std::make_unique<Line>(*this, standby);
    found_.marks.insert("standby takes a role");
    const bool waits = !standby.waited.empty() && network_.lives(standby.waited.back()->number);
    if (!waits) return begin();
    Waiting& last = *standby.waited.back();
    last.has_role = last.wanted.rank == role.rank && last.wanted.next == role.since;
    if (!last.has_role) network_.on_end(last.number, begin);
    stop_waiting(standby);
  });
}

void SimulatedWorkers::wait_for_role(Process& standby, const JoinerWanted& wanted) {
  network_.after(absl::ZeroDuration(), [this, &standby, wanted] {
    if (standby.was_killed || standby.standby == nullptr) return;
    stop_waiting(standby);
    if (wanted.is_off) return;
    standby.waited.push_back(std::make_unique<Waiting>());
    Waiting& waiting = *standby.waited.back();
    waiting.wanted = wanted;
    const absl::StatusOr<int> leavers_seat = seat_in(wanted.leaver.address);
    CHECK_OK(leavers_seat.status());
    waiting.seat = 1 - *leavers_seat;
    waiting.number = network_.start(
        seat_rank(wanted.rank, waiting.seat, topology_.world_size()), wanted.next,
        {[this, &standby, &waiting](Transport& inner) { wait_in_seat(standby, waiting, inner); }},
        Machine(standby.node.value));
    const std::string address =
        seated_address(waiting.seat, SimulatedNetwork::address(waiting.number));
    standby.standby->say(JoinerReady{Node(0), wanted.rank, {address, wanted.next}});
  });
}

void SimulatedWorkers::wait_in_seat(Process& standby, Waiting& waiting, Transport& inner) {
  waiting.transport = std::make_unique<SeatedTransport>(inner);
  waiting.joiner = std::make_unique<Joiner>(
      waiting.wanted.rank, waiting.wanted.leaver, *waiting.transport, shape_.snapshot_bytes_max,
      [&](std::vector<Chunk> whole) { waiting.whole = std::move(whole); });
  if (waiting.is_over) waiting.joiner->stop_soon();
  // Where it cannot go on, who was killed does not, and who has the role does without.
  waiting.joiner->serve().IgnoreError();
  std::vector<Chunk> given = waiting.joiner->take();
  waiting.joiner.reset();
  if (!waiting.has_role || standby.was_killed) return inner.close();
  standby.inherited = std::move(given);
  take_over(standby, waiting);
  serve(standby, inner);
}

// It goes on in its seat, with a thread more.
void SimulatedWorkers::take_over(Process& standby, Waiting& waiting) {
  standby.whole = std::move(waiting.whole);
  standby.transport = std::move(waiting.transport);
  standby.seat = waiting.seat;
  for (int32_t i = 0; i < topology_.world_size(); ++i) {
    const Rank role(i), joiner = other_process(role, topology_.world_size());
    if (role == standby.rank) continue;
    if (standby.transport->is_connected(role, Traffic::kMessages))
      found_.marks.insert("joiner was connected beforehand");
    if (standby.transport->is_connected(joiner, Traffic::kMessages))
      found_.marks.insert("joiners were connected beforehand");
  }
  note_start(standby, waiting.number);
  network_.add_thread(waiting.number,
                      [this, &standby](Transport& inner) { train(standby, inner); });
}

void SimulatedWorkers::stop_waiting(Process& standby) {
  if (standby.waited.empty() || !network_.lives(standby.waited.back()->number)) return;
  Waiting& waiting = *standby.waited.back();
  waiting.is_over = true;
  if (waiting.joiner != nullptr) waiting.joiner->stop_soon();
  network_.deliver(waiting.number,
                   {View(0), kServiceGroup, static_cast<uint32_t>(MessageKind::kWake)}, {});
}

// As play() of worker/worker.cc does.
void SimulatedWorkers::become_standby(Process& process) {
  rules_.forget(process.pid);
  process.is_relieved = false;
  process.rank = Rank(-1);
  process.threads = 2;
  process.slow_by = 1;
  process.line.reset();
  process.stage_transport.reset();
  process.transport.reset();
  process.inherited.clear();
  process.whole.clear();
  found_.marks.insert("leaver waits as a standby");
  process.standby = std::make_unique<StandbyLine>(*this, process);
  process.standby->attach(absl::ZeroDuration());
}

void SimulatedWorkers::kill_standby(Node node) {
  for (const auto& process : processes_) {
    if (process->node == node && process->standby != nullptr && !process->was_killed)
      return kill(*process);
  }
}

}  // namespace evermoe
