#include "sim/control_network.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace evermoe {

absl::Duration ControlNetwork::draw(absl::Duration max) {
  return absl::Nanoseconds(
      static_cast<int64_t>(time_.draw(static_cast<uint64_t>(absl::ToInt64Nanoseconds(max)) + 1)));
}

// ---- processes

ControlProcess ControlNetwork::begin(Machine machine, StreamEvents& events) {
  disturb(absl::ZeroDuration());
  processes_.emplace_back();
  processes_.back().machine = machine;
  processes_.back().events = &events;
  return ControlProcess(std::ssize(processes_) - 1);
}

void ControlNetwork::listen(ControlProcess process, const std::string& address) {
  listeners_[address].push_back(process);
}

void ControlNetwork::end(ControlProcess number) {
  Process& process = processes_[index(number)];
  if (!process.lives) return;
  disturb(absl::ZeroDuration());
  process.lives = false;
  process.held.clear();
  process.resting.clear();
  for (auto& [address, those] : listeners_) std::erase(those, number);
  std::vector<StreamNumber> own;
  for (const auto& [stream, s] : streams_) {
    if (s.ends[0] == number || s.ends[1] == number) own.push_back(stream);
  }
  for (const StreamNumber stream : own) {
    break_stream(stream, streams_.at(stream).ends[0] == number ? 0 : 1, "it has gone");
  }
}

void ControlNetwork::stop(ControlProcess process) { processes_[index(process)].is_stopped = true; }

void ControlNetwork::go_on(ControlProcess number) {
  Process& process = processes_[index(number)];
  if (!process.lives || !process.is_stopped) return;
  disturb(absl::ZeroDuration());
  process.is_stopped = false;
  while (!process.held.empty()) {
    auto stream = process.held.begin();
    std::advance(stream, static_cast<int64_t>(time_.draw(process.held.size())));
    const Held next = std::move(stream->second.front());
    stream->second.pop_front();
    if (stream->second.empty()) process.held.erase(stream);
    hand_over(number, next);
  }
  for (const auto& timer : std::exchange(process.resting, {}))
    after(number, absl::ZeroDuration(), timer);
}

absl::Duration ControlNetwork::clock(ControlProcess process) const {
  const auto behind = clock_behind_.find(machine_of(process));
  return time_.now() - (behind == clock_behind_.end() ? absl::ZeroDuration() : behind->second);
}

void ControlNetwork::after(ControlProcess number, absl::Duration delay,
                           std::function<void()> what) {
  time_.after(std::max(delay, absl::ZeroDuration()), [this, number, what = std::move(what)] {
    Process& process = processes_[index(number)];
    if (!process.lives) return;
    if (process.is_stopped)
      process.resting.push_back(what);
    else
      what();
  });
}

// ---- streams

StreamNumber ControlNetwork::call(ControlProcess from, const std::string& address) {
  const StreamNumber number(++last_stream_);
  Stream& stream = streams_[number];
  stream.ends[0] = from;
  stream.address = address;
  time_.after(draw(options_.connect_max), [this, number] { connect(number); });
  return number;
}

void ControlNetwork::connect(StreamNumber number) {
  const auto found = streams_.find(number);
  if (found == streams_.end() || found->second.is_broken) return;
  Stream& stream = found->second;
  const auto listener = listeners_.find(stream.address);
  if (listener == listeners_.end() || listener->second.empty())
    return break_stream(number, 1, "nobody answers");
  const Machine here = machine_of(stream.ends[0]), there = machine_of(listener->second.back());
  if (here != there && options_.one_call_fails_in > 0 &&
      time_.draw(static_cast<uint64_t>(options_.one_call_fails_in)) == 0) {
    ++calls_failed_;
    return break_stream(number, 1, "no route");
  }
  const absl::Duration blocked = std::max(blocked_until(here, there), blocked_until(there, here));
  if (blocked > time_.now()) {  // it is tried again and again
    time_.after(blocked - time_.now() + draw(options_.connect_max),
                [this, number] { connect(number); });
    return;
  }
  stream.ends[1] = listener->second.back();
  stream.is_connected = true;
  pump(number, 1);
}

void ControlNetwork::send(ControlProcess from, StreamNumber number, Envelope envelope) {
  const auto found = streams_.find(number);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  const int towards = stream.ends[0] == from ? 1 : 0;
  if (stream.is_broken) {
    ++envelopes_lost_;
    return;
  }
  Direction& direction = stream.to[static_cast<size_t>(towards)];
  absl::Duration longest = options_.delay_max;
  if (stream.is_connected) {
    const Condition& on_the_way =
        condition(machine_of(from), machine_of(stream.ends[static_cast<size_t>(towards)]));
    if (on_the_way.slow_until > time_.now()) longest = on_the_way.delay_max;
  }
  direction.last = std::max(direction.last, time_.now() + draw(longest));
  direction.queue.push_back({direction.last, std::move(envelope)});
  longest_queue_ = std::max(longest_queue_, direction.queue.size());
  if (stream.is_connected) pump_later(number, towards, direction.queue.front().due);
}

void ControlNetwork::close(ControlProcess end, StreamNumber number) {
  const auto found = streams_.find(number);
  if (found == streams_.end()) return;
  break_stream(number, found->second.ends[0] == end ? 0 : 1, "it has closed the connection");
}

// Of what is under way the oldest still comes.
void ControlNetwork::break_direction(Direction& direction, absl::Duration lateness,
                                     const std::string& why) {
  const size_t kept = static_cast<size_t>(time_.draw(direction.queue.size() + 1));
  envelopes_lost_ += static_cast<int64_t>(direction.queue.size() - kept);
  direction.queue.resize(kept);
  direction.breaks_at = time_.now() + lateness + draw(options_.notice_max);
  direction.why = why;
}

// `by`: the end that knows and is not told.
void ControlNetwork::break_stream(StreamNumber number, int by, const std::string& why) {
  Stream& stream = streams_.at(number);
  const int other = 1 - by;
  stream.hears[static_cast<size_t>(by)] = false;
  stream.to[static_cast<size_t>(by)].queue.clear();
  Direction& direction = stream.to[static_cast<size_t>(other)];
  if (!std::exchange(stream.is_broken, true)) break_direction(direction, absl::ZeroDuration(), why);
  if (is_over(stream)) {
    streams_.erase(number);
    return;
  }
  pump_later(number, other,
             direction.queue.empty() ? *direction.breaks_at : direction.queue.front().due);
}

void ControlNetwork::break_streams(Machine early, Machine late, absl::Duration lateness) {
  disturb(lateness);
  for (auto& [number, stream] : streams_) {
    if (!stream.is_connected || stream.is_broken) continue;
    const std::pair machines(machine_of(stream.ends[0]), machine_of(stream.ends[1]));
    if (machines != std::pair(early, late) && machines != std::pair(late, early)) continue;
    stream.is_broken = true;
    for (const int i : {0, 1}) {
      Direction& direction = stream.to[static_cast<size_t>(i)];
      const bool is_late = machine_of(stream.ends[static_cast<size_t>(i)]) == late;
      break_direction(direction, is_late ? lateness : absl::ZeroDuration(), "the connection broke");
      pump_later(number, i,
                 direction.queue.empty() ? *direction.breaks_at : direction.queue.front().due);
    }
  }
}

void ControlNetwork::pump_later(StreamNumber number, int towards, absl::Duration at) {
  Direction& direction = streams_.at(number).to[static_cast<size_t>(towards)];
  at = std::max(at, time_.now());
  if (direction.pump_at <= at) return;
  direction.pump_at = at;
  time_.after(at - time_.now(), [this, number, towards, at] {
    const auto found = streams_.find(number);
    if (found == streams_.end() || found->second.to[static_cast<size_t>(towards)].pump_at != at)
      return;
    found->second.to[static_cast<size_t>(towards)].pump_at = absl::InfiniteDuration();
    pump(number, towards);
  });
}

// What is due comes. The far end may send, close or end meanwhile.
void ControlNetwork::pump(StreamNumber number, int towards) {
  while (true) {
    const auto found = streams_.find(number);
    if (found == streams_.end()) return;
    Stream& stream = found->second;
    Direction& direction = stream.to[static_cast<size_t>(towards)];
    const ControlProcess to = stream.ends[static_cast<size_t>(towards)];
    if (direction.queue.empty() && !direction.breaks_at) return;
    absl::Duration due =
        direction.queue.empty() ? *direction.breaks_at : direction.queue.front().due;
    if (stream.is_connected) {
      due = std::max(due, blocked_until(machine_of(stream.ends[static_cast<size_t>(1 - towards)]),
                                        machine_of(to)));
    }
    if (due > time_.now()) return pump_later(number, towards, due);
    if (direction.queue.empty()) {
      const std::string why = direction.why;
      direction.breaks_at.reset();
      stream.hears[static_cast<size_t>(towards)] = false;
      if (is_over(stream)) streams_.erase(found);
      return hand_over(to, {number, std::nullopt, why});
    }
    Held next{number, std::move(direction.queue.front().envelope), ""};
    direction.queue.pop_front();
    hand_over(to, std::move(next));
  }
}

// Nobody is left to be told anything.
bool ControlNetwork::is_over(const Stream& stream) const {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (stream.hears[i] && stream.ends[i].value >= 0 && lives(stream.ends[i])) return false;
  }
  return true;
}

void ControlNetwork::hand_over(ControlProcess to, Held what) {
  Process& process = processes_[index(to)];
  if (!process.lives) return;
  if (process.is_stopped) {
    std::deque<Held>& held = process.held[what.stream];
    held.push_back(std::move(what));
    longest_queue_ = std::max(longest_queue_, held.size());
  } else if (what.envelope) {
    process.events->on_envelope(what.stream, *std::move(what.envelope));
  } else {
    process.events->on_broken(what.stream, what.why);
  }
}

// ---- conditions

absl::Duration ControlNetwork::blocked_until(Machine from, Machine to) {
  const auto found = conditions_.find({from, to});
  return found == conditions_.end() ? absl::ZeroDuration() : found->second.blocked_until;
}

void ControlNetwork::block(Machine from, Machine to, absl::Duration time) {
  Condition& state = condition(from, to);
  state.blocked_until = std::max(state.blocked_until, time_.now() + time);
  disturb(time);
}

void ControlNetwork::slow(Machine from, Machine to, absl::Duration delay_max, absl::Duration time) {
  Condition& state = condition(from, to);
  state.slow_until = std::max(state.slow_until, time_.now() + time);
  state.delay_max = delay_max;
  disturb(time);
}

void ControlNetwork::disturb(absl::Duration time) {
  disturbed_until_ = std::max(disturbed_until_, time_.now() + time);
}

absl::Duration ControlNetwork::disturbed_until() const {
  const bool is_any_stopped = std::any_of(processes_.begin(), processes_.end(),
                                          [](const auto& p) { return p.lives && p.is_stopped; });
  return is_any_stopped ? absl::InfiniteDuration() : disturbed_until_;
}

}  // namespace evermoe
