// The processes of a simulated control plane: what agent.h and controller_server.h are to sockets
// and child processes, these are to a ControlNetwork. Each drives the real core of its kind.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/agent/agent_core.h"
#include "control/controller/relay/controller_relay.h"
#include "sim/control_network.h"

namespace evermoe {

// A process with a mailbox and a clock, which wakes up for what has come and for its next deadline.
class ControlShell : protected StreamEvents {
 public:
  ControlShell(SimulatedNetwork& time, ControlNetwork& network, Machine machine,
               absl::Duration sleep_max);
  ~ControlShell() override { network_.end(process_); }
  ControlShell(const ControlShell&) = delete;
  ControlShell& operator=(const ControlShell&) = delete;

  ControlProcess process() const { return process_; }
  void stop() { network_.stop(process_); }
  void go_on() { network_.go_on(process_); }
  bool is_stopped() const { return network_.is_stopped(process_); }
  // The time of its machine, which stands still while that is suspended.
  absl::Duration now() const { return network_.clock(process_); }

 protected:
  struct Arrived {
    StreamNumber stream;
    std::optional<Envelope> envelope;  // nullopt: broken
    std::string why;
  };
  virtual void take(const Arrived& mail) = 0;
  virtual void on_time() = 0;
  virtual absl::Duration next_deadline() const = 0;
  // It may have mail, or another deadline.
  void wake();

  SimulatedNetwork& time_;
  ControlNetwork& network_;

 private:
  void on_envelope(StreamNumber stream, Envelope envelope) noexcept override;
  void on_broken(StreamNumber stream, const std::string& why) noexcept override;
  void work();
  void sleep();

  const absl::Duration sleep_max_;
  ControlProcess process_;
  std::deque<Arrived> arrived_;
  bool is_awake_ = false;
  absl::Duration wakes_at_ = absl::InfiniteDuration();
};

class SimulatedController final : public ControlShell {
 public:
  struct Options {
    std::string address;
    ControllerOptions core;
    RelayOptions relay;
    absl::Duration farewell_max;
    std::function<void(const EndJob&)> on_end;  // of the job, before everybody is seen off
  };
  // `watch` sees what the relay does.
  SimulatedController(SimulatedNetwork& time, ControlNetwork& network, Machine machine,
                      const Topology& topology, const Options& options,
                      std::function<void(const RelayAction&)> watch);

  // The job has ended and everybody has been told and gone, or has had the time to.
  bool is_over() const;
  const ControllerRelay& relay() const { return relay_; }

 private:
  void take(const Arrived& mail) override;
  void on_time() override;
  absl::Duration next_deadline() const override;
  void act(const std::vector<RelayAction>& actions);

  const absl::Duration farewell_max_;
  const std::function<void(const EndJob&)> on_end_;
  ControllerRelay relay_;
  std::optional<absl::Duration> farewell_ends_;
  std::function<void(const RelayAction&)> watch_;
};

// What an agent's operating system does for it.
class WorkerHost {
 public:
  virtual ~WorkerHost() = default;
  // Nothing is not started. The worker attaches to `agent`; its end is told to
  // SimulatedAgent::on_exit().
  virtual pid_t spawn(const SpawnWorker& worker, Node node, const std::string& agent) = 0;
  // A standby, which says so to `agent` when it is warm; TakeRole makes it a worker, and
  // BecomeStandby a worker a standby.
  virtual pid_t spawn_standby(Node node, const std::string& agent) = 0;
  // It is asked to end when its step is done.
  virtual void drain(pid_t pid) = 0;
  virtual void kill(pid_t pid) = 0;
  // An agent has ended: with it every worker that it started.
  virtual void kill_all_of(const std::string& agent) = 0;
};

class SimulatedAgent final : public ControlShell {
 public:
  struct Options {
    std::string controller, address;
    AgentCoreOptions core;
  };
  struct Events {
    std::function<void(const AgentAction&)> watch;  // what it does
    // It has done something for a controller that is older than one it has met.
    std::function<void(const std::string& how)> break_rule;
  };
  SimulatedAgent(SimulatedNetwork& time, ControlNetwork& network, const Options& options,
                 WorkerHost& host, Events events);
  ~SimulatedAgent() override { host_.kill_all_of(options_.address); }

  pid_t pid() const { return options_.core.pid; }
  const std::string& address() const { return options_.address; }
  void on_exit(pid_t worker, const ExitStatus& exit);
  // Why its machine is not fit to play a role; none: it is. False: it is busy, and not measured.
  bool judge(std::vector<std::string> complaints);
  // Its machine will be taken away: it asks every controller to let it go.
  void leave();
  // Another controller is to be found there; empty: nobody knows where.
  void look_for_controller_at(const std::string& address);
  // It has quit.
  const std::optional<QuitAgent>& end() const { return end_; }
  // Because it may go, and the job goes on.
  bool is_dismissed() const { return is_dismissed_; }

 private:
  void take(const Arrived& mail) override;
  void on_time() override;
  absl::Duration next_deadline() const override;
  void hear_controller(const Arrived& mail);
  void apply(AgentActions actions);
  void act(const AttachController&);
  void act(const ToController& send);
  void act(const ToWorker& send) { network_.send(process(), send.to, send.envelope); }
  void act(const CutWorker& cut) { network_.close(process(), cut.stream); }
  void act(const SpawnWorker& spawn);
  void act(const SpawnStandby& spawn);
  void act(const PromoteStandby& promote);
  void act(const RelieveWorker& relieve);
  void act(const AdoptStandby& adopt);
  void act(const SignalWorker& signal);
  void act(const QuitAgent& quit) { end_ = quit; }
  void act(const AskForPlan& ask);
  void act(const StopAsking&);
  void act(const CutAsker& cut) { network_.close(process(), cut.stream); }
  void act(const ToAskers& send);
  void act(const AskPartner& ask);
  void act(const DropQuestion& drop);
  std::string lines() const { return options_.address + "-lines"; }

  const Options options_;
  WorkerHost& host_;
  const Events events_;
  AgentCore core_;
  std::string controller_address_;
  int64_t term_ = 0, newest_term_ = 0;  // of the controller at the other end; of all that were
  StreamNumber controller_;             // the newest call; 0: none
  StreamNumber asked_;                  // another agent, likewise
  std::set<StreamNumber>
      calls_;  // all of them: what comes late of a former one is nothing to anybody
  std::set<StreamNumber> askers_;
  std::map<StreamNumber, int64_t> questions_;  // AskPartner::number, by its line
  std::map<int64_t, pid_t> workers_;           // by start; standbys by number
  std::deque<std::pair<pid_t, ExitStatus>> exits_;
  bool is_leaving_ = false, is_dismissed_ = false;
  std::optional<QuitAgent> end_;
};

}  // namespace evermoe
