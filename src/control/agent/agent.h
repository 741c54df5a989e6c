// The agent of a node as a process: control/agent/agent_core.h, worker processes, and its two kinds
// of streams.
//
// Its workers are in its own process group, so one signal to that group ends the node; and they die
// with it (worker_process.h), so a killed agent is a lost node.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "control/agent/agent_core.h"
#include "control/agent/worker_process.h"
#include "control/launch/signal_inbox.h"
#include "control/wire/control_call.h"
#include "control/wire/control_listener.h"
#include "control/wire/mailbox.h"
#include "env/clock.h"

namespace evermoe {

// How a worker is started.
struct WorkerCommand {
  std::string program;
  std::vector<std::string> arguments;
  std::string log_path;
};

struct AgentOptions {
  std::string controller;               // where it listens
  std::string address = "127.0.0.1:0";  // for the workers: ControlListener::start()
  // For a worker that attaches to this agent at `agent`.
  std::function<WorkerCommand(const SpawnWorker& worker, const std::string& agent)> command;
  int kept_fd = -1;  // as in WorkerProcessOptions
  // Of this process, which outlives the agent: the first one asks for the end of the job, one that
  // comes more than StopRequest::kOneWish later ends the node at once. Null: signals are not looked
  // at.
  SignalInbox* signals = nullptr;
  AgentCoreOptions core;
};

class Agent final : private StreamEvents {
 public:
  // `clock` outlives it.
  static absl::StatusOr<std::unique_ptr<Agent>> start(AgentOptions options, Clock& clock);
  ~Agent() override;

  // Until the job ends, or no controller has been there for too long (Timeout). The workers live as
  // long as the thread that calls it.
  absl::Status run();
  // What the controller said of the end of the job, if it did.
  const std::optional<EndJob>& job_end() const { return job_end_; }

 private:
  struct Arrived {
    StreamNumber stream;
    std::optional<Envelope> envelope;  // nullopt: broken
    std::string why;
  };
  Agent(AgentOptions options, Clock& clock);
  void on_envelope(StreamNumber stream, Envelope envelope) override;
  void on_broken(StreamNumber stream, const std::string& why) override;

  void wait();
  void take_mail();
  void take_signals();
  void hear_controller(const Envelope& envelope);
  void on_controller_broken(const std::string& why);
  std::vector<std::pair<int64_t, ExitStatus>> ended_workers();
  void bury(int64_t start, const ExitStatus& exit);

  void apply(AgentActions actions);
  void act(const AttachController&);
  void act(const ToController& send);
  void act(const ToWorker& send);
  void act(const CutWorker& cut);
  void act(const SpawnWorker& spawn);
  void act(const SignalWorker& signal);
  void act(const QuitAgent& quit);

  const AgentOptions options_;
  Clock& clock_;
  AgentCore core_;
  Mailbox<Arrived> arrived_;
  std::map<int64_t, std::unique_ptr<WorkerProcess>> workers_;  // by start
  int64_t calls_ = 0;
  std::unique_ptr<ControlCall> controller_;
  std::string last_break_;  // why the last call broke, said once
  std::unique_ptr<ControlListener> listener_;
  StopRequest stop_;
  std::optional<EndJob> job_end_;
  std::optional<QuitAgent> end_;
};

}  // namespace evermoe
