// How processes and connections of a SimulatedKernel end, and who notices when.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "comm/simulated/simulated_kernel.h"

namespace evermoe {

using State = SimulatedPeer::State;

// Those who are connected with it or want to be notice at different times. Who waits for nothing of
// it needs no event: it finds the loss when it looks, or when it first needs a connection.
void SimulatedKernel::announce_end(SimulatedProcess& ended, const absl::Status& why) {
  ended.farewell = why;
  if (threads_.is_closing()) return;
  for (SimulatedProcess* const process : present_) {
    if (process == &ended || !process->is_alive()) continue;
    const SimulatedPeer& peer = process->peer(ended.rank);
    if (peer.process != &ended || process->state(ended.rank) == State::kNamed) continue;
    const absl::Duration time = draw_discovery(*process, ended);
    const bool is_blocked = blocks_.until(ended.machine, process->machine) > threads_.now();
    if (!is_blocked && !process->waits_for(ended.rank) &&
        process->state(ended.rank) == State::kConnected) {
      process->lose_later(ended.rank, time);
    } else {
      hear_of_loss_at(time, *process, ended, peer.connection, why);
    }
  }
}

// After the last message has arrived.
absl::Duration SimulatedKernel::draw_discovery(const SimulatedProcess& process,
                                               const SimulatedProcess& lost) {
  absl::Duration time = threads_.now();
  if (process.is_alive()) {
    const SimulatedPeer& peer = process.peer(lost.rank);
    SimulatedLink* const link = peer.link();
    if (link == nullptr) {
      time = std::max(time, peer.opens_at());
    } else if (!link->is_cut) {
      time = std::max(time, link->towards(process).last);
    }
  }
  return time + threads_.draw_delay(options_.discovery_max);
}

void SimulatedKernel::schedule_loss(SimulatedProcess& process, SimulatedProcess& lost,
                                    uint32_t connection, const absl::Status& why) {
  hear_of_loss_at(draw_discovery(process, lost), process, lost, connection, why);
}

void SimulatedKernel::hear_of_loss_at(absl::Duration time, SimulatedProcess& process,
                                      SimulatedProcess& lost, uint32_t connection,
                                      const absl::Status& why) {
  threads_.at(time, [this, &process, &lost, connection, why] {
    hear_of_loss(process, lost, connection, why);
  });
}

void SimulatedKernel::hear_of_loss(SimulatedProcess& process, SimulatedProcess& lost,
                                   uint32_t connection, const absl::Status& why) {
  const auto again = [this, &process, &lost, connection, why] {
    hear_of_loss(process, lost, connection, why);
  };
  if (!blocks_.hold(lost.machine, process.machine, again))
    notice_loss(process, lost, connection, why);
}

void SimulatedKernel::notice_loss(SimulatedProcess& process, SimulatedProcess& lost,
                                  uint32_t connection, const absl::Status& why) {
  if (!process.is_alive()) return;
  if (postpone(process, [this, &process, &lost, connection, why] {
        notice_loss(process, lost, connection, why);
      }))
    return;
  const SimulatedPeer& peer = process.peer(lost.rank);
  if (peer.process != &lost || peer.connection != connection) return;  // turned to another one
  const State state = process.state(lost.rank);
  if (state == State::kNobody || state == State::kLost) return;
  threads_.record('n', process.group.number, lost.group.number);
  process.lose(lost.rank, why);
}

void SimulatedKernel::watch_loss(SimulatedProcess& process, Rank rank) {
  const SimulatedPeer& peer = process.peer(rank);
  if (!peer.is_losing() || process.state(rank) == State::kLost) return;
  process.keep_until_noticed(rank);
  hear_of_loss_at(peer.turns_at(), process, *peer.process, peer.connection, peer.process->farewell);
}

void SimulatedKernel::cut(SimulatedProcess& a, SimulatedProcess& b) {
  if (!a.is_alive() || !b.is_alive()) return;
  SimulatedPeer& peer = a.peer(b.rank);
  if (peer.process != &b || peer.connection == 0) return;
  const std::shared_ptr<SimulatedLink> broken = link(a, peer);
  if (broken->is_cut) return;
  threads_.record('x', a.group.number, b.group.number);
  broken->is_cut = true;
  // The first one breaks it, or is where it breaks, and needs no line to learn of it.
  const auto why =
      PeerLost(b.rank, absl::StrCat("the connection with rank ", b.rank.value, " broke"));
  threads_.at(draw_discovery(a, b), [this, &a, &b, connection = peer.connection, why] {
    notice_loss(a, b, connection, why);
  });
  schedule_loss(
      b, a, peer.connection,
      PeerLost(a.rank, absl::StrCat("the connection with rank ", a.rank.value, " broke")));
}

void SimulatedKernel::kill(SimulatedProcess& process) {
  if (process.ended) return;
  const bool was_alive = process.is_alive();
  process.ended = true;
  process.group.killed = true;
  std::erase(present_, &process);
  threads_.record('k', process.group.number);
  const absl::Status reason = Cancelled(absl::StrCat("rank ", process.rank.value, " was killed"));
  process.stop_for_good(reason);
  for (const auto& flight : std::exchange(process.sending, {})) {
    flight->is_dropped = true;
    flight->to->forget_held(flight);
    std::exchange(flight->large_send, nullptr)->finish(reason);
  }
  process.postponed.clear();
  if (was_alive) announce_end(process, PeerLost(process.rank, std::string(reason.message())));
  schedule_on_end(process, threads_.draw_delay(options_.discovery_max));
}

void SimulatedKernel::kill_all() {
  for (const auto& process : processes_) kill(*process);
}

void SimulatedKernel::stop(SimulatedProcess& process) {
  if (process.ended) return;
  threads_.record('p', process.group.number);
  process.group.paused = true;
}

void SimulatedKernel::go_on(SimulatedProcess& process) {
  if (process.ended || !process.group.paused) return;
  threads_.record('g', process.group.number);
  process.group.paused = false;
  process.group.touch();
  for (const auto& what : std::exchange(process.postponed, {})) what();
}

void SimulatedKernel::say_goodbye(SimulatedProcess& process) {
  process.stop_for_good(Cancelled("the transport is closed"));
  announce_end(process, Cancelled(absl::StrCat("rank ", process.rank.value, " has left")));
}

void SimulatedKernel::thread_has_returned(SimulatedProcess& process) {
  if (--process.threads_left > 0) return;
  if (!process.ended) {
    process.ended = true;
    std::erase(present_, &process);
    if (process.is_alive()) {
      process.stop_for_good(Cancelled("the process has exited"));
      announce_end(process, PeerLost(process.rank, absl::StrCat("rank ", process.rank.value,
                                                                " has exited without a goodbye")));
    }
    schedule_on_end(process, absl::ZeroDuration());
  }
  process.clear();
}

void SimulatedKernel::on_end(SimulatedProcess& process, std::function<void()> what) {
  process.on_end.push_back(std::move(what));
  if (process.ended) schedule_on_end(process, absl::ZeroDuration());
}

void SimulatedKernel::schedule_on_end(SimulatedProcess& process, absl::Duration after) {
  threads_.at(threads_.now() + after, [&process] {
    for (const auto& what : std::exchange(process.on_end, {})) what();
  });
}

}  // namespace evermoe
