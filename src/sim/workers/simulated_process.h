// A process of a simulated job, as SimulatedWorkers keeps it (simulated_workers.h). Inside that
// alone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport/seated_transport.h"
#include "comm/transport/watched_transport.h"
#include "env/clock.h"
#include "recovery/member/joiner.h"
#include "sim/workers/simulated_workers.h"
#include "sim/workers/worker_line.h"

namespace evermoe {

// A standby waits for a certain role, in the seat in which it will play it
// (worker/joiner_process.h).
struct SimulatedWorkers::Waiting {
  JoinerWanted wanted;
  int seat = 0;
  ProcessNumber number;
  bool is_over = false;
  bool has_role = false;                       // it goes on with that when it is over
  std::unique_ptr<SeatedTransport> transport;  // once it has begun
  std::unique_ptr<Joiner> joiner;              // likewise, until it is over
  std::vector<Chunk> whole;                    // a state that it was given ahead
};

struct SimulatedWorkers::Process {
  pid_t pid = 0;
  std::optional<ProcessNumber> number;  // once it has begun
  int seat = 0;
  Rank rank{-1};  // negative: of a standby
  View since;
  Node node;
  std::string agent;  // where it listens
  bool was_killed = false;
  bool is_relieved = false;  // another process has its role
  double slow_by = 1;
  int threads = 2;                               // that have not returned
  std::unique_ptr<StandbyLine> standby;          // as long as it is one
  std::vector<std::unique_ptr<Waiting>> waited;  // the last one may still
  std::vector<Chunk> inherited, whole;           // what it was given as one
  std::unique_ptr<Line> line;
  std::unique_ptr<SeatedTransport> transport;
  std::unique_ptr<WatchedTransport> stage_transport;  // the trainer's
  std::unique_ptr<StageTrainer> trainer;
  std::unique_ptr<Clock> clock;
  std::unique_ptr<Member> member;
  absl::Status result;
};

// The member's way to the controller, and what is looked at on it.
class SimulatedWorkers::Line final : public ControlLink {
 public:
  Line(SimulatedWorkers& workers, Process& process)
      : workers_(workers),
        process_(process),
        control_(workers.control_, Machine(process.node.value),
                 {.agent = process.agent, .rank = process.rank, .since = process.since}) {}
  void send(MemberMessage message) override {
    if (process_.was_killed) return;
    workers_.watch(process_, message);
    control_.send(std::move(message));
  }
  WorkerControlLine& control() { return control_; }

 private:
  SimulatedWorkers& workers_;
  Process& process_;
  WorkerControlLine control_;
};

// What a standby says to its agent, and hears of it (worker/standby_line.h).
class SimulatedWorkers::StandbyLine final : private StreamEvents {
 public:
  StandbyLine(SimulatedWorkers& workers, Process& process)
      : workers_(workers),
        process_(process),
        own_(workers.control_.begin(Machine(process.node.value), *this)) {}
  ~StandbyLine() override { workers_.control_.end(own_); }

  void say(ControlMessage message) { send(std::move(message)); }
  void attach(absl::Duration warm_up) {
    call_ = workers_.control_.call(own_, process_.agent);
    send(WorkerHello{process_.pid});
    workers_.control_.after(own_, warm_up, [this] { send(StandbyWarm{}); });
  }

 private:
  void send(ControlMessage message) {
    workers_.control_.send(own_, call_, {0, std::move(message)});
  }
  void on_envelope(StreamNumber, Envelope envelope) noexcept override {
    if (const auto* const role = std::get_if<TakeRole>(&envelope.message))
      workers_.take_role(process_, *role);
    if (const auto* const wanted = std::get_if<JoinerWanted>(&envelope.message))
      workers_.wait_for_role(process_, *wanted);
  }
  void on_broken(StreamNumber, const std::string&) noexcept override { workers_.kill(process_); }

  SimulatedWorkers& workers_;
  Process& process_;
  const ControlProcess own_;
  StreamNumber call_;
};

}  // namespace evermoe
