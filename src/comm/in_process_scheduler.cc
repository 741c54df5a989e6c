#include "comm/in_process_scheduler.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

InProcessCluster::Scheduler::Scheduler(int size, InProcessOptions options)
    : options_(std::move(options)), random_(options_.seed) {
  for (int i = 0; i < size; ++i) {
    auto state = std::make_unique<RankState>();
    state->from.resize(static_cast<size_t>(size));
    state->lost.resize(static_cast<size_t>(size));
    ranks_.push_back(std::move(state));
  }
  running_ = Rank(static_cast<int32_t>(draw(static_cast<uint64_t>(size))));
}

void InProcessCluster::Scheduler::take_baton(Rank rank) {
  std::unique_lock lock(mutex_);
  at(rank).baton.wait(lock, [&] { return running_ == rank; });
}

void InProcessCluster::Scheduler::leave(Rank rank) {
  RankState& state = at(rank);
  if (state.stopped.ok()) {
    state.stopped = Cancelled("the process has exited");
    schedule_end(rank, PeerLost(rank, absl::StrCat("rank ", rank.value, " has exited without a goodbye")));
  }
  state.gone = true;
  record("leave", rank, rank, {}, 0);
  hand_over(rank, false);
}

void InProcessCluster::Scheduler::hand_over(Rank from, bool comes_back) {
  const std::optional<Rank> next = choose();
  if (next == from && comes_back) return;
  if (next) record("run", *next, from, {}, 0);
  std::unique_lock lock(mutex_);
  running_ = next;
  if (next) at(*next).baton.notify_one();
  if (comes_back) at(from).baton.wait(lock, [&] { return running_ == from; });
}

bool InProcessCluster::Scheduler::is_runnable(const RankState& state) const {
  if (state.gone) return false;
  return state.waits_for == nullptr || state.waits_for->finished || state.wakes_at <= now_;
}

std::optional<Rank> InProcessCluster::Scheduler::choose() {
  while (true) {
    std::vector<Rank> runnable;
    bool anybody = false;
    for (int32_t i = 0; i < size(); ++i) {
      anybody = anybody || !at(Rank(i)).gone;
      if (is_runnable(at(Rank(i)))) runnable.push_back(Rank(i));
    }
    if (!anybody) return std::nullopt;
    if (!runnable.empty()) return runnable[draw(runnable.size())];
    pass_time();
  }
}

// Everybody waits: the next thing to happen is an event or the earliest deadline.
void InProcessCluster::Scheduler::pass_time() {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& state : ranks_) {
    if (!state->gone) next = std::min(next, state->wakes_at);
  }
  if (events_.empty() || events_.begin()->first.first > next) {
    now_ = std::max(now_, next);
    return;
  }
  auto first = events_.extract(events_.begin());
  now_ = std::max(now_, first.key().first);
  apply(std::move(first.mapped()));
}

absl::Duration InProcessCluster::Scheduler::draw_delay(absl::Duration longest) {
  return absl::Nanoseconds(static_cast<int64_t>(draw(static_cast<uint64_t>(absl::ToInt64Nanoseconds(longest)) + 1)));
}

void InProcessCluster::Scheduler::record(absl::string_view what, Rank rank, Rank peer, const Tag& tag,
                                         uint64_t number) {
  transcript_.update(absl::StrCat(what, " ", rank.value, " ", peer.value, " ", tag.view.value, " ", tag.group,
                                  " ", tag.purpose, " ", number, " ", absl::ToInt64Nanoseconds(now_), "\n"));
}

absl::Status InProcessCluster::Scheduler::begin_call(Rank rank, absl::string_view name, Rank peer,
                                                     const Tag& tag, size_t bytes) {
  CHECK(running_ == rank) << "rank " << rank << "'s transport is used outside its own thread";
  RankState& state = at(rank);
  record(name, rank, peer, tag, bytes);
  for (const auto& kill : options_.kills) {
    if (kill.rank != rank || kill.at_call != state.calls || !state.stopped.ok()) continue;
    state.stopped = Cancelled("this rank was killed");
    for (Inbox& inbox : state.from) inbox.fail_posted(std::nullopt, state.stopped);
    for (int32_t to = 0; to < size(); ++to) fail_large_sends(rank, Rank(to), std::nullopt, state.stopped);
    schedule_end(rank, PeerLost(rank, absl::StrCat("rank ", rank.value, " was killed")));
  }
  ++state.calls;
  return state.stopped;
}

void InProcessCluster::Scheduler::offer_switch(Rank rank) {
  if (options_.switch_at_every_call) hand_over(rank, true);
}

void InProcessCluster::Scheduler::send(Rank from, PendingOperation& send) {
  RankState& state = at(from);
  const absl::Status& lost = state.lost[static_cast<size_t>(send.peer.value)];
  if (state.revoked && send.tag.view <= *state.revoked) {
    send.finish(state.revoke_reason);
  } else if (!lost.ok()) {
    send.finish(lost);
  } else {
    schedule_message(from, send);
  }
}

void InProcessCluster::Scheduler::schedule_message(Rank from, PendingOperation& send) {
  Event event{from, send.peer, std::make_unique<KeptMessage>(send.tag, send.source.size()), nullptr, {}};
  std::copy(send.source.begin(), send.source.end(), event.message->bytes.get());
  transcript_.update(send.source);
  const std::pair pair(from, send.peer);
  absl::Duration& stream = last_arrival_[{pair, send.tag}];
  stream = std::max(stream, now_ + draw_delay(options_.delay_max));
  absl::Duration& last = last_arrival_of_pair_[pair];
  last = std::max(last, stream);
  if (send.source.size() > options_.eager_bytes_max && from != send.peer) {
    event.large_send = &send;
    at(from).sending.push_back(&send);
  } else {
    send.finish(absl::OkStatus());
  }
  events_.emplace(EventKey(stream, event_count_++), std::move(event));
}

void InProcessCluster::Scheduler::receive(Rank to, PendingOperation& receive) {
  RankState& state = at(to);
  if (state.revoked && receive.tag.view <= *state.revoked) return receive.finish(state.revoke_reason);
  Inbox& from = inbox(to, receive.peer);
  from.post(&receive);
  const absl::Status& lost = state.lost[static_cast<size_t>(receive.peer.value)];
  if (receive.finished || lost.ok()) return;
  from.withdraw(&receive);
  receive.finish(lost);
}

void InProcessCluster::Scheduler::apply(Event event) {
  if (event.message == nullptr) return notice_end(event.to, event.from, event.end);
  const Tag tag = event.message->tag;
  record("arrive", event.to, event.from, tag, event.message->size);
  if (event.large_send != nullptr) {
    std::erase(at(event.from).sending, event.large_send);
    event.large_send->finish(absl::OkStatus());
  }
  RankState& state = at(event.to);
  if (!state.stopped.ok() || (state.revoked && tag.view <= *state.revoked)) return;
  Inbox& box = inbox(event.to, event.from);
  if (PendingOperation* const receive = box.match(tag); receive != nullptr) {
    deliver(event.message->span(), *receive);
  } else {
    box.keep(std::move(event.message));
  }
}

// The peers notice at different times, each after the last message has reached it.
void InProcessCluster::Scheduler::schedule_end(Rank rank, const absl::Status& end) {
  for (int32_t i = 0; i < size(); ++i) {
    const Rank to(i);
    if (to == rank) continue;
    const auto last = last_arrival_of_pair_.find({rank, to});
    const absl::Duration after = last == last_arrival_of_pair_.end() ? now_ : std::max(now_, last->second);
    events_.emplace(EventKey(after + draw_delay(options_.discovery_max), event_count_++),
                    Event{rank, to, nullptr, nullptr, end});
  }
}

void InProcessCluster::Scheduler::notice_end(Rank rank, Rank ended, const absl::Status& end) {
  record("notice end", rank, ended, {}, 0);
  at(rank).lost[static_cast<size_t>(ended.value)] = end;
  inbox(rank, ended).fail_posted(std::nullopt, end);
  fail_large_sends(rank, ended, std::nullopt, end);
}

void InProcessCluster::Scheduler::fail_large_sends(Rank rank, Rank to, std::optional<View> last,
                                                   const absl::Status& reason) {
  const std::vector<PendingOperation*> sending = at(rank).sending;
  for (PendingOperation* const send : sending) {
    if (send->peer != to || (last && send->tag.view > *last)) continue;
    withdraw(rank, *send);
    send->finish(reason);
  }
}

void InProcessCluster::Scheduler::block(Rank rank, PendingOperation& operation, absl::Duration timeout) {
  RankState& state = at(rank);
  state.waits_for = &operation;
  state.wakes_at = now_ + std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24 * 365));
  while (!operation.finished && now_ < state.wakes_at) hand_over(rank, true);
  state.waits_for = nullptr;
}

void InProcessCluster::Scheduler::withdraw(Rank rank, PendingOperation& operation) {
  if (operation.kind == PendingOperation::Kind::kReceive) {
    inbox(rank, operation.peer).withdraw(&operation);
    return;
  }
  std::erase(at(rank).sending, &operation);
  for (auto& [key, event] : events_) {
    if (event.large_send == &operation) event.large_send = nullptr;
  }
}

void InProcessCluster::Scheduler::revoke(Rank rank, View view, const absl::Status& reason) {
  RankState& state = at(rank);
  if (state.revoked && *state.revoked >= view) return;
  state.revoked = view;
  state.revoke_reason = reason;
  for (Inbox& inbox : state.from) {
    inbox.fail_posted(view, reason);
    inbox.drop_kept(view);
  }
  for (int32_t to = 0; to < size(); ++to) fail_large_sends(rank, Rank(to), view, reason);
}

void InProcessCluster::Scheduler::say_goodbye(Rank rank) {
  RankState& state = at(rank);
  state.stopped = Cancelled("the transport is closed");
  for (Inbox& inbox : state.from) inbox.fail_posted(std::nullopt, state.stopped);
  schedule_end(rank, Cancelled(absl::StrCat("rank ", rank.value, " has left")));
}

}  // namespace evermoe
