// The process of `evermoe run` while its protected job runs: looks after controller and agents,
// passes on what they say, and knows how it ended. Private to protected_run*.cc.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/controller/recovery_book.h"
#include "control/controller/stall_adjusted_clock.h"
#include "control/launch/control_child.h"
#include "control/launch/process_faults.h"
#include "control/launch/protected_run.h"
#include "control/launch/signal_inbox.h"
#include "control/wire/control_call.h"
#include "control/wire/mailbox.h"
#include "faults/injected_faults.h"

namespace evermoe {

class ProtectedRun final : private StreamEvents {
 public:
  ProtectedRun(Files& files, Clock& clock, const ProtectedRunOptions& options,
               RunObserver& observer, SignalInbox& signals, const std::set<int>& injected);
  ~ProtectedRun() override { call_.reset(); }

  RunOutcome run();

 private:
  static constexpr int kExitFailed = 1;
  static constexpr int kExitBadInput = 2;
  // How long controller and agents may take to end by themselves after the job.
  static constexpr absl::Duration kFarewellMax = absl::Seconds(10);
  struct Arrived {
    StreamNumber stream;
    std::optional<Envelope> envelope;  // nullopt: broken
  };
  void on_envelope(StreamNumber stream, Envelope envelope) override {
    arrived_.put({stream, std::move(envelope)});
  }
  void on_broken(StreamNumber stream, const std::string&) override {
    arrived_.put({stream, std::nullopt});
  }

  // ---- protected_run.cc
  void wait();
  void take_mail();
  void look_after_call();
  void on_signal(int number);
  void inject(const Fault& fault);

  void hear(const Welcome& welcome);
  void hear(const JobEvent& tell) { observer_.on_say(tell.text); }
  void hear(const WorkerReport& report);
  void hear(const WorkerLogTail& words) {
    observer_.on_log(name_of(words.rank), words.path, words.lines);
  }
  void hear(const RoleProcess& process);
  void hear(const NodeLost& lost);
  void hear(const RecoveryNote& note);
  void hear(const EndJob& end);
  template <typename Other>
  void hear(const Other&) {}  // Beat
  void note(const WorkerReport& report);

  void fail(int exit_code, std::string reason);
  bool is_over() const;
  void write_workers();
  std::string name_of(Rank rank) const;
  RunOutcome outcome() const;

  // ---- protected_run_processes.cc
  void start_controller();
  void start_agent(Node node);
  void look_after_controller();
  void look_after_agents();
  void on_agent_lost(Node node, const std::string& how);
  ControlChildOptions child_options(const std::string& command, const std::string& name,
                                    std::vector<std::string> flags) const;

  Files& files_;
  Clock& clock_;
  const ProtectedRunOptions& options_;
  RunObserver& observer_;
  SignalInbox& signals_;
  const Topology topology_;
  Mailbox<Arrived> arrived_;
  RecoveryBook book_;
  const absl::Duration began_;
  ProcessFaults faults_;
  const std::string local_address_;  // what addresses that only this machine needs begin with
  const std::string address_;        // of every controller

  std::unique_ptr<ControlChild> controller_;
  int64_t life_ = -1;
  std::map<Node, std::unique_ptr<ControlChild>> agents_;
  int64_t agent_starts_ = 0;
  absl::Duration return_at_;                      // of a node, when none is left
  int controller_losses_ = 0, agent_losses_ = 0;  // since the newest step

  int64_t calls_ = 0;
  std::unique_ptr<ControlCall> call_;
  bool is_attached_ = false;
  absl::Duration retry_at_ = -absl::InfiniteDuration();
  StallAdjustedClock time_;
  absl::Duration heard_;  // from the controller; when it was started; of own time
  absl::Duration next_beat_ = -absl::InfiniteDuration();

  std::map<std::string, pid_t> workers_;  // by role
  bool workers_file_broken_ = false;
  Step newest_;
  StopRequest stop_;
  bool drained_ = false;  // a worker said so
  std::optional<EndJob> end_;
  absl::Duration farewell_ends_;
  std::optional<RunOutcome> failure_;
};

}  // namespace evermoe
