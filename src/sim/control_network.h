// The network of the control plane, simulated: streams of envelopes between processes, as
// control/wire/control_stream.h has them, in the virtual time of a SimulatedNetwork and from its
// seed.
//
// What a stream does:
// * Envelopes come in the order sent, each once, after a drawn delay, while the stream lives.
// * It breaks when a process at one end ends or closes it, or when the network breaks it. Of what
//   was under way a drawn share, the oldest, still comes; then the other end hears on_broken(), a
//   drawn time later. So whoever attaches anew cannot know whether its last words were heard.
// * A break by the network may be noticed by one end much later than by the other: what the late
//   one sends meanwhile is lost, and the early one may have attached anew.
// * Between two machines either direction can be blocked for a while: nothing arrives then, not
//   even news of a break, and everything arrives afterwards, in order. Both directions: a
//   partition. New calls wait for its end. A direction can be slow instead: delays are drawn from a
//   longer range.
// * A call takes a drawn time to connect, and fails if nobody listens; between machines some fail
//   for no reason at all.
// * A process that is stopped hears nothing and its timers rest. Afterwards all comes at once: the
//   envelopes of each stream in order, the streams drawn against each other.
//
// What it does not do: lose, double or reorder envelopes inside a living stream (nor does gRPC),
// damage them (the codec's tests do), limit bytes, or push back: the longest queue is measured
// instead. Processes of one machine, the workers and their agent, are never blocked from each
// other.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/simulated/simulated_network.h"
#include "control/wire/control_stream.h"

namespace evermoe {

using ControlProcess = StrongId<struct ControlProcessName, int64_t>;

struct ControlNetworkOptions {
  absl::Duration delay_max = absl::Milliseconds(2);    // of an envelope
  absl::Duration connect_max = absl::Milliseconds(4);  // of a call
  absl::Duration notice_max = absl::Milliseconds(5);   // from a break to its discovery
  int one_call_fails_in = 16;                          // between machines; 0: none
};

class ControlNetwork {
 public:
  // `time` outlives it and everything that was called with it.
  ControlNetwork(SimulatedNetwork& time, ControlNetworkOptions options)
      : time_(time), options_(options) {}

  // A process begins; `events` live until it has ended. They are called as events of `time`, or
  // from inside go_on().
  ControlProcess begin(Machine machine, StreamEvents& events);
  // Of several that live the newest one answers.
  void listen(ControlProcess process, const std::string& address);
  // Killed, or gone by itself.
  void end(ControlProcess process);
  void stop(ControlProcess process);
  void go_on(ControlProcess process);
  bool lives(ControlProcess process) const { return processes_[index(process)].lives; }
  bool is_stopped(ControlProcess process) const { return processes_[index(process)].is_stopped; }
  // The monotonic clock of its machine.
  absl::Duration clock(ControlProcess process) const;
  // The machine has been suspended for so long, and its clock with it: what slept there did not
  // notice.
  void put_back_clock(Machine machine, absl::Duration time) { clock_behind_[machine] += time; }
  bool is_behind(Machine machine) const { return clock_behind_.contains(machine); }
  // A timer of the process: never after its end, and not while it is stopped.
  void after(ControlProcess process, absl::Duration delay, std::function<void()> what);

  // Both ends call the stream by this number. Whoever called may send at once.
  StreamNumber call(ControlProcess from, const std::string& address);
  void send(ControlProcess from, StreamNumber stream, Envelope envelope);
  // Nothing more is heard at this end.
  void close(ControlProcess end, StreamNumber stream);

  // ---- faults of the network
  void block(Machine from, Machine to, absl::Duration time);
  void slow(Machine from, Machine to, absl::Duration delay_max, absl::Duration time);
  // All streams between two machines; the ends on `late` notice only after `lateness`.
  void break_streams(Machine early, Machine late, absl::Duration lateness);

  // Since then no line was blocked, slow or broken, and no process began, ended or stood still;
  // infinite: one stands still.
  absl::Duration disturbed_until() const;

  const ControlNetworkOptions& options() const { return options_; }
  size_t longest_queue() const { return longest_queue_; }
  int64_t calls_failed() const { return calls_failed_; }  // for no reason
  int64_t envelopes_lost() const {
    return envelopes_lost_;
  }  // envelopes that a break has swallowed

 private:
  struct Held {  // for a stopped process
    StreamNumber stream;
    std::optional<Envelope> envelope;
    std::string why;
  };
  struct Process {
    Machine machine;
    StreamEvents* events = nullptr;
    bool lives = true;
    bool is_stopped = false;
    std::map<StreamNumber, std::deque<Held>> held;
    std::vector<std::function<void()>> resting;  // timers that fell due while it was stopped
  };
  struct Travelling {
    absl::Duration due;
    Envelope envelope;
  };
  struct Direction {
    std::deque<Travelling> queue;
    absl::Duration last;  // arrival of the newest
    std::optional<absl::Duration> breaks_at;
    std::string why;
    absl::Duration pump_at = absl::InfiniteDuration();  // the earliest event that looks after it
  };
  struct Stream {
    std::array<ControlProcess, 2> ends{ControlProcess(-1), ControlProcess(-1)};  // caller, listener
    std::array<bool, 2> hears{true, true};
    std::array<Direction, 2> to;  // to ends[i]
    std::string address;
    bool is_connected = false;
    bool is_broken = false;
  };
  struct Condition {
    absl::Duration blocked_until;
    absl::Duration slow_until;
    absl::Duration delay_max;
  };

  static size_t index(ControlProcess process) { return static_cast<size_t>(process.value); }
  void connect(StreamNumber number);
  void break_stream(StreamNumber number, int by, const std::string& why);
  void break_direction(Direction& direction, absl::Duration lateness, const std::string& why);
  void pump_later(StreamNumber number, int towards, absl::Duration at);
  void pump(StreamNumber number, int towards);
  void hand_over(ControlProcess to, Held what);
  bool is_over(const Stream& stream) const;
  Condition& condition(Machine from, Machine to) { return conditions_[{from, to}]; }
  absl::Duration blocked_until(Machine from, Machine to);
  Machine machine_of(ControlProcess process) const { return processes_[index(process)].machine; }
  absl::Duration draw(absl::Duration max);
  void disturb(absl::Duration time);

  SimulatedNetwork& time_;
  const ControlNetworkOptions options_;
  std::deque<Process> processes_;  // by number
  std::map<std::string, std::vector<ControlProcess>> listeners_;
  std::map<StreamNumber, Stream> streams_;
  std::map<std::pair<Machine, Machine>, Condition> conditions_;
  std::map<Machine, absl::Duration> clock_behind_;
  absl::Duration disturbed_until_;
  int64_t last_stream_ = 0;
  size_t longest_queue_ = 0;
  int64_t calls_failed_ = 0;
  int64_t envelopes_lost_ = 0;
};

}  // namespace evermoe
