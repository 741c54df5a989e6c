// The agent of a node as a process: control/agent/agent_core.h, worker processes, and its two kinds
// of streams.
//
// Its workers are in its own process group, so one signal to that group ends the node; and they die
// with it (worker_process.h), so a killed agent is a lost node.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "control/agent/agent_core.h"
#include "control/agent/agent_lines.h"
#include "control/agent/processes/worker_process.h"
#include "control/health/health_watch.h"
#include "control/launch/signal_inbox.h"
#include "control/wire/control_call.h"
#include "control/wire/control_listener.h"
#include "control/wire/incident_lines.h"
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
  std::string controller;               // where it listens; empty: nobody knows yet
  std::shared_ptr<const JobKeys> keys;  // if that is an address of a network
  std::string address;  // for the workers: ControlListener::start(), inside the machine
  // For a worker that attaches to this agent at `agent`.
  std::function<WorkerCommand(const SpawnWorker& worker, const std::string& agent)> command;
  std::function<WorkerCommand(const SpawnStandby& standby, const std::string& agent)>
      standby_command;
  int kept_fd = -1;  // as in WorkerProcessOptions
  // Of this process, which outlives the agent. The first one says what is wanted: SIGTERM and
  // SIGUSR1 that the machine will be taken away soon (NodeLeaves), any other the end of the job;
  // one that comes more than StopRequest::kOneWish later ends the node at once. Null: signals are
  // not looked at.
  SignalInbox* signals = nullptr;
  // Whether the job would go with this machine now: then it is drained before. Empty: no.
  std::function<bool()> job_goes_with_it;
  // Of this machine, before it plays a role and now and then while it plays none
  // (health/health_watch.h). Empty: it counts as fit.
  HealthWatch::Measure measure;
  HealthLimits health;
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
  // Any thread. Another controller is to be found there; empty: nobody knows where.
  void look_for_controller_at(std::string address);
  // Any thread. The node ends, and its workers.
  void quit(std::string why);
  // The signal that came twice, if that has ended the node; 0: it has not.
  int quit_signal() const { return quit_signal_; }
  // Any thread. Whether a controller has answered and is not taken for gone.
  bool has_controller() const { return has_controller_; }
  // Any thread. Whether workers live here.
  bool has_workers() const { return has_workers_; }
  // What the controller said of the end of the job, if it did.
  const std::optional<EndJob>& job_end() const { return job_end_; }

 private:
  struct Order {                            // of others in this process
    std::optional<std::string> controller;  // where it is now
    std::string quit_why;
  };
  struct Arrived {
    StreamNumber stream;
    std::optional<Envelope> envelope;  // nullopt: broken
    std::string why;
  };
  Agent(AgentOptions options, Clock& clock);
  void on_envelope(StreamNumber stream, Envelope envelope) noexcept override;
  void on_broken(StreamNumber stream, const std::string& why) noexcept override;

  void wait();
  void take_mail();
  void take_mail_of_agents();
  void take_signals();
  void send_wish();
  void take_orders();
  std::string own_lines();  // where others reach it; empty: nowhere
  void look_at_health();
  void judge_health();
  int64_t memory_of_standbys() const;
  void note_date(const Welcome& welcome);
  void hear_controller(const Envelope& envelope);
  void on_controller_broken(const std::string& why);
  std::vector<std::pair<int64_t, ExitStatus>> ended_workers();
  void bury(int64_t start, const ExitStatus& exit);
  // A process of that number, for the core.
  void start_process(int64_t number, Rank rank, const std::string& what,
                     const WorkerCommand& command);
  void note_workers();

  void apply(AgentActions actions);
  void act(const AttachController&);
  void act(const ToController& send);
  void act(const ToWorker& send);
  void act(const CutWorker& cut);
  void act(const SpawnWorker& spawn);
  void act(const SpawnStandby& spawn);
  void act(const RelieveWorker& relieve);
  void act(const AdoptStandby& adopt);
  void act(const PromoteStandby& promote);
  void act(const SignalWorker& signal);
  void act(const QuitAgent& quit);
  void act(const AskForPlan& ask);
  void act(const StopAsking& stop);
  void act(const CutAsker& cut) { lines_.hang_up(cut.stream); }
  void act(const ToAskers& send);
  void act(const AskPartner& ask);
  void act(const DropQuestion& drop);

  const AgentOptions options_;
  Clock& clock_;
  AgentCore core_;
  Mailbox<Arrived> arrived_;
  Mailbox<Order> orders_;
  std::string controller_address_;
  std::map<int64_t, std::unique_ptr<WorkerProcess>> workers_;  // by start; standbys by number
  std::atomic<bool> has_workers_ = false;
  std::atomic<bool> has_controller_ = false;
  int64_t calls_ = 0;
  std::unique_ptr<ControlCall> controller_;
  std::string last_break_;  // why the last call broke, said once
  std::unique_ptr<ControlListener> listener_;
  AgentLines lines_;
  StreamNumber asked_;                         // for a plan, on this line; 0: nobody
  std::map<StreamNumber, int64_t> questions_;  // AskPartner::number, by its line
  absl::Duration listen_again_ = -absl::InfiniteDuration();
  std::optional<HealthWatch> health_;
  std::optional<NodeHealth> measured_;               // the newest
  std::optional<ClockDifference> clock_difference_;  // to the newest controller's
  absl::Duration called_;                            // the controller, by the clock
  std::string complaint_;                            // the newest verdict, for the log
  IncidentLines incident_lines_;
  StopRequest stop_;
  bool is_leaving_ = false;  // its machine will be taken away
  int quit_signal_ = 0;
  std::optional<EndJob> job_end_;
  std::optional<QuitAgent> end_;
};

}  // namespace evermoe
