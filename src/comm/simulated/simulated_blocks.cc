#include "comm/simulated/simulated_blocks.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "comm/simulated/simulated_kernel.h"

namespace evermoe {

void SimulatedBlocks::block(Machine from, Machine to, absl::Duration time) {
  CHECK(from != to) << "processes of machine " << from << " are never blocked from each other";
  const absl::Duration now = threads_.now();
  Direction& direction = directions_[{from, to}];
  if (direction.until <= now) direction.since = now;
  if (direction.until >= now + time) return;
  direction.until = now + time;
  threads_.at(direction.until, [this, &direction] { release(direction); });
}

absl::Duration SimulatedBlocks::until(Machine from, Machine to) const {
  const auto found = directions_.find({from, to});
  return found == directions_.end() ? absl::ZeroDuration() : found->second.until;
}

bool SimulatedBlocks::is_blocked_since(Machine from, Machine to, absl::Duration time) const {
  const auto found = directions_.find({from, to});
  return found != directions_.end() && found->second.since <= time &&
         found->second.until > threads_.now();
}

bool SimulatedBlocks::hold(Machine from, Machine to, std::function<void()> what) {
  const auto found = directions_.find({from, to});
  if (found == directions_.end()) return false;
  Direction& direction = found->second;
  // What comes at the very end must not pass by what still waits for it.
  if (direction.until <= threads_.now() && direction.held.empty()) return false;
  direction.held.push_back(std::move(what));
  return true;
}

void SimulatedBlocks::release(Direction& direction) {
  if (direction.until > threads_.now()) return;  // it was blocked again
  for (const auto& what : std::exchange(direction.held, {})) what();
}

// ---- what it means for the processes of both machines

void SimulatedKernel::block(Machine from, Machine to, absl::Duration time) {
  threads_.record('b', from.value, to.value, absl::ToInt64Nanoseconds(time));
  blocks_.block(from, to, time);
  for (SimulatedProcess* const here : present_) {
    if (!here->is_alive() || (here->machine != from && here->machine != to)) continue;
    const Machine there = here->machine == from ? to : from;
    for (int32_t r = 0; r < ranks_; ++r) {
      const SimulatedPeer& peer = here->peer(Rank(r));
      if (peer.process == nullptr || peer.process->machine != there) continue;
      // Who finds a loss only when it looks would find it before the news are here.
      if (here->machine == to) watch_loss(*here, Rank(r));
      if (peer.connection != 0) draw_silence(*here, Rank(r));
    }
  }
}

void SimulatedKernel::draw_silence(SimulatedProcess& process, Rank rank) {
  if (threads_.draw(2) == 0) return;
  const SimulatedPeer& peer = process.peer(rank);
  const absl::Duration began = threads_.now();
  const absl::Duration patience =
      options_.silence_min + threads_.draw_delay(options_.silence_max - options_.silence_min);
  threads_.at(began + patience,
              [this, &process, &silent = *peer.process, began, connection = peer.connection] {
                const Machine here = process.machine, there = silent.machine;
                if (blocks_.is_blocked_since(here, there, began) ||
                    blocks_.is_blocked_since(there, here, began)) {
                  lose_in_silence(process, silent, connection);
                }
              });
}

void SimulatedKernel::lose_in_silence(SimulatedProcess& process, SimulatedProcess& silent,
                                      uint32_t connection) {
  if (!process.is_alive()) return;
  SimulatedPeer& peer = process.peer(silent.rank);
  const SimulatedPeer::State state = process.state(silent.rank);
  if (peer.process != &silent || peer.connection != connection ||
      state == SimulatedPeer::State::kNobody || state == SimulatedPeer::State::kLost)
    return;
  ++lost_in_silence_;
  link(process, peer)->is_cut = true;
  notice_loss(process, silent, connection,
              PeerLost(silent.rank, absl::StrCat("rank ", silent.rank.value, " is silent")));
  if (!silent.is_alive()) return;
  schedule_loss(silent, process, connection,
                PeerLost(process.rank, absl::StrCat("rank ", process.rank.value,
                                                    " has given the connection up")));
}

}  // namespace evermoe
