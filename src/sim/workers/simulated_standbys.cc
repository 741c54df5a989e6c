// The processes of a simulated job that play no role: they wait for one, as worker/worker.cc does.
#include <utility>

#include "recovery/protocol/joiner_seats.h"
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
  const auto begin = [this, &standby, role] {
    if (standby.was_killed || standby.standby == nullptr) return;
    standby.standby.reset();
    standby.rank = role.rank;
    standby.since = role.since;
    if (!standby.waited.empty()) {
      Waiting& last = *standby.waited.back();
      const bool is_next = last.wanted.rank == role.rank && last.wanted.next == role.since;
      if (is_next) {
        standby.inherited = std::move(last.chunks);
        standby.whole = std::move(last.whole);
      }
    }
    standby.line = std::make_unique<Line>(*this, standby);
    found_.marks.insert("standby takes a role");
    start(standby);
  };
  network_.after(absl::ZeroDuration(), [this, &standby, begin] {
    const bool waits = !standby.waited.empty() && network_.lives(standby.waited.back()->number);
    if (!waits) return begin();
    network_.on_end(standby.waited.back()->number, begin);
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
    const auto serve = [this, &waiting](Transport& transport) {
      std::vector<PeerAddress> table(static_cast<size_t>(transport.size()));
      table[static_cast<size_t>(waiting.wanted.rank.value)] = waiting.wanted.leaver;
      waiting.joiner = std::make_unique<Joiner>(
          waiting.wanted.rank, transport, shape_.snapshot_bytes_max,
          [&](std::vector<Chunk> whole) { waiting.whole = std::move(whole); });
      if (waiting.is_over) waiting.joiner->stop_soon();
      if (transport.set_peers(table).ok() && waiting.joiner->serve().ok())
        waiting.chunks = waiting.joiner->take();
      waiting.joiner.reset();
      transport.close();
    };
    const Rank seat = joiner_seat(wanted.rank, topology_.world_size());
    waiting.number = network_.start(seat, wanted.view, {serve}, Machine(standby.node.value));
    standby.standby->say(JoinerReady{
        Node(0), wanted.rank, {SimulatedNetwork::address(waiting.number), wanted.view}});
  });
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
