#include "comm/simulated/simulated_kernel.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/error.h"
#include "comm/simulated/simulated_transport.h"

namespace evermoe {
namespace {

using State = SimulatedPeer::State;

constexpr absl::string_view kScheme = "sim:";

// A killed process that calls on and on does not look at its errors, and would do so for ever.
constexpr int64_t kCallsAfterDeathMax = 1'000'000;

}  // namespace

std::string SimulatedNetwork::address(ProcessNumber process) {
  return absl::StrCat(kScheme, process.value);
}

SimulatedKernel::SimulatedKernel(int ranks, SimulatedNetworkOptions options)
    : ranks_(ranks),
      options_(options),
      blocks_(threads_),
      threads_(options.seed, options.time_max, options.one_core) {}

SimulatedProcess& SimulatedKernel::start(Rank rank, View since,
                                         std::vector<SimulatedNetwork::Thread> threads,
                                         Machine machine) {
  CHECK(!threads.empty()) << "a process without threads";
  const auto number = static_cast<int64_t>(processes_.size());
  processes_.push_back(
      std::make_unique<SimulatedProcess>(number, rank, since, machine, ranks_, threads_));
  SimulatedProcess& process = *processes_.back();
  present_.push_back(&process);
  process.transport = make_simulated_transport(*this, process);
  threads_.record('s', number, rank.value, since.value);
  for (SimulatedNetwork::Thread& body : threads) add_thread(process, std::move(body));
  if (threads_.is_closing()) kill(process);
  return process;
}

void SimulatedKernel::add_thread(SimulatedProcess& process, SimulatedNetwork::Thread body) {
  CHECK(!process.ended) << "process " << process.group.number << " has ended";
  ++process.threads_left;
  threads_.add(process.group, process.threads_begun++, [this, &process, body = std::move(body)] {
    if (!process.group.killed) body(*process.transport);
    thread_has_returned(process);
  });
}

SimulatedProcess& SimulatedKernel::process(ProcessNumber number) {
  CHECK(number.value >= 0 && static_cast<size_t>(number.value) < processes_.size())
      << "there is no process " << number;
  return *processes_[static_cast<size_t>(number.value)];
}

SimulatedProcess& SimulatedKernel::process_at(const std::string& address) {
  absl::string_view digits = address;
  int64_t number = 0;
  CHECK(absl::ConsumePrefix(&digits, kScheme) && absl::SimpleAtoi(digits, &number))
      << "not an address of a simulated process: " << address;
  return process(ProcessNumber(number));
}

SimulatedProcess* SimulatedKernel::running_process() {
  const SimulatedThread* const thread = threads_.running();
  return thread == nullptr ? nullptr : &process(ProcessNumber(thread->group.number));
}

absl::Status SimulatedKernel::begin_call(SimulatedProcess& process, char name, Rank peer,
                                         const Tag& tag, size_t bytes) {
  CHECK(running_process() == &process)
      << "the transport of process " << process.group.number << " is used outside its threads";
  threads_.await_turn();
  threads_.record(name, process.group.number, peer.value, tag.view.value, tag.group, tag.purpose,
                  static_cast<int64_t>(bytes));
  ++process.calls;
  if (process.group.killed) {
    CHECK(++process.calls_after_death < kCallsAfterDeathMax)
        << "rank " << process.rank << " was killed and goes on";
  }
  return process.stopped;
}

void SimulatedKernel::send(SimulatedProcess& process, PendingOperation& send) {
  const bool is_service_message = send.tag.group == kServiceGroup;
  CHECK(is_service_message || send.peer == process.rank || send.tag.view >= process.started_since)
      << "rank " << process.rank << " joined in view " << process.started_since
      << " and sends in view " << send.tag.view;
  if (const absl::Status& reason = process.revoked(send.tag); !reason.ok()) {
    send.finish(reason);
  } else if (absl::Status why = process.why_not(send.peer); !why.ok()) {
    send.finish(std::move(why));
  } else if (process.may_connect(send.peer)) {
    process.parked.push_back(&send);
    need(process, send.peer);
  } else {
    launch(process, process.peer(send.peer), send);
    if (!send.finished) watch_loss(process, send.peer);
  }
}

void SimulatedKernel::receive(SimulatedProcess& process, PendingOperation& receive) {
  process.receive(receive);
  if (receive.finished) return;
  if (process.may_connect(receive.peer)) return need(process, receive.peer);
  watch_loss(process, receive.peer);
}

namespace {

// The time of arrival that keeps the order of a stream, given the one that was drawn.
absl::Duration next_arrival(SimulatedLink::Stream& stream, const Tag& tag, absl::Duration now,
                            absl::Duration drawn) {
  if (stream.last_of_tag.size() >= stream.clear_at) {
    absl::erase_if(stream.last_of_tag, [&](const auto& entry) { return entry.second < now; });
    stream.clear_at = 2 * stream.last_of_tag.size() + 64;
  }
  const Tag key = tag.group == kServiceGroup ? Tag{View(0), kServiceGroup, 0} : tag;
  absl::Duration& last = stream.last_of_tag[key];
  last = std::max(last, drawn);
  stream.last = std::max(stream.last, last);
  return last;
}

}  // namespace

std::shared_ptr<SimulatedLink> SimulatedKernel::link(SimulatedProcess& process,
                                                     SimulatedPeer& peer) {
  std::shared_ptr<SimulatedLink>& link = peer.traffic().link;
  if (link != nullptr) return link;
  ++traffic_.pairs;
  link = std::make_shared<SimulatedLink>();
  link->ends = {&process, peer.process};
  SimulatedLink::Stream& here = link->towards(process);
  here.open_at = here.last = peer.opens_at();
  if (!peer.process->is_alive()) return link;
  SimulatedPeer& back = peer.process->peer(process.rank);
  if (back.process != &process || back.connection != peer.connection) return link;
  SimulatedLink::Stream& there = link->towards(*peer.process);
  there.open_at = there.last = back.opens_at();
  back.traffic().link = link;
  return link;
}

// When the last byte has left, if the first may leave at `earliest`.
absl::Duration SimulatedKernel::leave_line(SimulatedProcess& from, size_t bytes,
                                           absl::Duration earliest) const {
  if (options_.bytes_per_second == 0) return earliest;
  from.line_free_at = std::max(from.line_free_at, earliest) +
                      absl::Seconds(static_cast<double>(bytes) / options_.bytes_per_second);
  return from.line_free_at;
}

void SimulatedKernel::slow_down(Machine from, Machine to, absl::Duration more,
                                absl::Duration more_of_byte) {
  CHECK(from != to) << "no line leads from machine " << from << " to itself";
  threads_.record('l', from.value, to.value, absl::ToInt64Nanoseconds(more),
                  absl::ToInt64Nanoseconds(more_of_byte));
  slow_[{from, to}] = {more, more_of_byte};
}

absl::Duration SimulatedKernel::slowness(const SimulatedProcess& from, const SimulatedProcess& to,
                                         size_t bytes) const {
  if (slow_.empty()) return absl::ZeroDuration();
  const auto found = slow_.find({from.machine, to.machine});
  if (found == slow_.end()) return absl::ZeroDuration();
  return found->second.more + static_cast<int64_t>(bytes) * found->second.more_of_byte;
}

void SimulatedKernel::launch(SimulatedProcess& from, SimulatedPeer& peer, PendingOperation& send) {
  auto flight = std::make_shared<SimulatedFlight>();
  flight->link = link(from, peer);
  flight->from = &from;
  flight->to = peer.process;
  flight->message = std::make_unique<KeptMessage>(send.tag, send.source.size());
  std::copy(send.source.begin(), send.source.end(), flight->message->bytes.get());
  threads_.record(send.source);
  if (&from != peer.process) {
    ++traffic_.messages;
    traffic_.bytes += static_cast<int64_t>(send.source.size());
  }
  const size_t eager_bytes_max = options_.bytes_per_second > 0 ? 0 : options_.eager_bytes_max;
  if (send.source.size() > eager_bytes_max && &from != peer.process) {
    flight->large_send = &send;
    from.sending.push_back(flight);
  } else {
    send.finish(absl::OkStatus());
  }
  SimulatedLink::Stream& stream = flight->link->towards(*peer.process);
  const absl::Duration now = threads_.now();
  // Nothing leaves before this end is connected, or arrives before the other one is.
  const absl::Duration leaves =
      leave_line(from, send.source.size(), std::max(now, flight->link->towards(from).open_at));
  const absl::Duration drawn = std::max(leaves + threads_.draw_delay(options_.delay_max) +
                                            slowness(from, *peer.process, send.source.size()),
                                        stream.open_at);
  threads_.at(next_arrival(stream, send.tag, now, drawn), [this, flight] { arrive(flight); });
}

void SimulatedKernel::arrive(const std::shared_ptr<SimulatedFlight>& flight) {
  if (flight->is_dropped || flight->link->is_cut || !flight->to->is_alive()) return;
  if (!blocks_.hold(flight->from->machine, flight->to->machine, [this, flight] { arrive(flight); }))
    hand_to(flight);
}

void SimulatedKernel::hand_to(const std::shared_ptr<SimulatedFlight>& flight) {
  if (flight->is_dropped || flight->link->is_cut || !flight->to->is_alive()) return;
  if (postpone(*flight->to, [this, flight] { hand_to(flight); })) return;
  threads_.record('a', flight->to->group.number, flight->from->group.number,
                  flight->message->tag.view.value, flight->message->tag.group,
                  flight->message->tag.purpose);
  flight->to->arrive(flight);
}

bool SimulatedKernel::postpone(SimulatedProcess& process, std::function<void()> what) {
  if (process.group.paused) process.postponed.push_back(std::move(what));
  return process.group.paused;
}

void SimulatedKernel::set_peers(SimulatedProcess& process, const std::vector<PeerAddress>& table) {
  CHECK(table.size() == static_cast<size_t>(ranks_))
      << "a table of " << table.size() << " for " << ranks_ << " ranks";
  const PeerAddress& own = table[static_cast<size_t>(process.rank.value)];
  if (own.address == SimulatedNetwork::address(ProcessNumber(process.group.number))) {
    process.since = std::max(process.since, own.since);
  }
  for (int32_t i = 0; i < ranks_; ++i) {
    if (Rank(i) != process.rank)
      name_process(process, Rank(i), table[static_cast<size_t>(i)], process.since);
  }
}

void SimulatedKernel::name_process(SimulatedProcess& process, Rank rank, const PeerAddress& entry,
                                   View own_since) {
  SimulatedPeer& peer = process.peer(rank);
  if (entry.address.empty()) {
    if (peer.process != nullptr) forget_former(process, rank);
    peer.process = nullptr;
    return;
  }
  SimulatedProcess& other = process_at(entry.address);
  CHECK(other.rank == rank) << "process " << other.group.number << " is not rank " << rank;
  const View since = std::max(own_since, entry.since);
  if (peer.process == &other && since <= peer.since) return;
  if (peer.process != nullptr) forget_former(process, rank);
  process.name_process(rank, other, since);
  if (other.is_alive() && other.peer(process.rank).process == &process &&
      other.state(process.rank) == State::kWanted) {
    connect_if_both_agree(process, rank);
  }
}

// The former process sees the connection break, if it lives.
void SimulatedKernel::forget_former(SimulatedProcess& process, Rank rank) {
  const SimulatedPeer& former = process.peer(rank);
  if (former.connection != 0) {
    schedule_loss(*former.process, process, former.connection,
                  PeerLost(process.rank, absl::StrCat("rank ", process.rank.value,
                                                      " has turned to another process")));
  }
  process.drop_former(rank);
}

void SimulatedKernel::need(SimulatedProcess& process, Rank rank) {
  if (process.state(rank) == State::kWanted) return;
  process.want(rank);
  SimulatedProcess& other = *process.peer(rank).process;
  if (other.is_alive()) return connect_if_both_agree(process, rank);
  schedule_loss(process, other, 0,
                PeerLost(rank, absl::StrCat("rank ", rank.value, " no longer listens")));
}

void SimulatedKernel::connect_if_both_agree(SimulatedProcess& process, Rank rank) {
  const SimulatedPeer& peer = process.peer(rank);
  SimulatedProcess& other = *peer.process;
  const SimulatedPeer& back = other.peer(process.rank);
  if (back.process != &process || !other.may_connect(process.rank) || back.since != peer.since)
    return;
  const auto number = static_cast<uint32_t>(++traffic_.connections);
  const bool is_younger = std::pair(process.since, process.rank) > std::pair(other.since, rank);
  ++(is_younger ? process : other).connections_opened;
  threads_.record('c', process.group.number, other.group.number);
  // The two ends are connected at times of their own. Nothing happens then: who asks looks at the
  // clock.
  const absl::Duration open =
      std::max({threads_.now(), blocks_.until(process.machine, other.machine),
                blocks_.until(other.machine, process.machine)});
  process.connect(other.rank, number, open + threads_.draw_delay(options_.delay_max));
  other.connect(process.rank, number, open + threads_.draw_delay(options_.delay_max));
  if (open > threads_.now()) {
    draw_silence(process, rank);
    draw_silence(other, process.rank);
  }
  launch_parked(process, rank);
  launch_parked(other, process.rank);
}

void SimulatedKernel::launch_parked(SimulatedProcess& process, Rank rank) {
  for (PendingOperation* const send : std::exchange(process.parked, {})) {
    if (send->peer == rank) {
      launch(process, process.peer(rank), *send);
    } else {
      process.parked.push_back(send);
    }
  }
  process.group.touch();
}

}  // namespace evermoe
