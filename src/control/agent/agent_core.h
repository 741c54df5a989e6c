// What the agent of a node decides: which worker processes run here, and what is handed on between
// them and the controller. Pure: events and time in, actions out.
//
//   away --(retry)--> attaching --(Welcome)--> registering --(all workers have)--> ready
//    ^                    |                         |                                |
//    +--------------------+----- broken, silent ----+--------------------------------+
//
// Workers go on while the controller is away. With every controller that answers, the agent brings
// together what lives here: every worker registers anew. If others play their roles by then the
// controller says so. The next host of the job has a newer term (checkpoint/write/folder_term.h):
// the workers go on under it; when another job has begun the agent ends them. To a controller that
// is older than one that it has met it does not listen: it attaches again until it finds the newer
// one.
//
// Here is which phase it is in, and what it does about each event. What it knows, and the rules by
// which it judges, are classes of their own: its workers (agent_workers.h) and what they say
// (worker_messages.h), those that wait for a role (agent_standbys.h), the controller that it
// follows (followed_controller.h), plans (agent_plans.h), and partners (agent_partners.h).
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/agent/agent_actions.h"
#include "control/agent/agent_partners.h"
#include "control/agent/agent_plans.h"
#include "control/agent/agent_standbys.h"
#include "control/agent/agent_workers.h"
#include "control/agent/followed_controller.h"
#include "control/agent/worker_messages.h"
#include "control/controller/stall_adjusted_clock.h"
#include "control/wire/control_messages.h"
#include "control/wire/control_stream.h"
#include "env/process.h"

namespace evermoe {

struct AgentCoreOptions {
  Node node;
  pid_t pid = 0;                  // the agent's own
  int64_t incarnation = 0;        // AgentHello::incarnation
  std::string host;               // name of the machine, for people
  std::string arithmetic;         // AgentReady::arithmetic
  bool waits_for_health = false;  // it is not fit before on_health() says so
  absl::Duration beat = absl::Milliseconds(500);
  absl::Duration silence_max = absl::Seconds(10);    // of a controller that is taken for gone
  absl::Duration own_standstill = absl::Seconds(2);  // stall_adjusted_clock.h
  absl::Duration retry = absl::Milliseconds(50);     // between two attempts to find one
  absl::Duration registering_max =
      absl::Seconds(1);  // workers that have not registered by then are left out
  absl::Duration measuring_max = absl::Seconds(5);  // then it says that it is not measured yet
  absl::Duration away_max = absl::Minutes(5);       // without a controller: then all ends here
  // How long the main thread of a process was ready and got no processor (env/processor_wait.h).
  std::function<absl::Duration(pid_t)> starved = [](pid_t) { return absl::ZeroDuration(); };
};

class AgentCore {
 public:
  AgentCore(AgentCoreOptions options, absl::Duration now);

  // The first call of on_time() begins.
  AgentActions on_time(absl::Duration now);
  absl::Duration next_deadline() const;

  AgentActions on_controller(absl::Duration now, const Envelope& envelope);
  AgentActions on_controller_broken(absl::Duration now);
  AgentActions on_worker(absl::Duration now, StreamNumber from, const Envelope& envelope);
  AgentActions on_worker_broken(absl::Duration now, StreamNumber stream);

  // AgentReady::complaints from now on.
  AgentActions on_health(absl::Duration now, std::vector<std::string> complaints);
  // No worker lives here, and no standby warms up: nothing keeps the machine busy.
  bool is_idle() const { return workers_.is_empty() && standbys_.kept().warming == 0; }
  bool has_controller() const { return phase_ == Phase::kRegistering || phase_ == Phase::kReady; }
  // Lines between agents. An asker is another agent; the line to the one that this agent asks is
  // the newest that AskForPlan began.
  AgentActions on_asker(absl::Duration now, StreamNumber from, const Envelope& envelope);
  AgentActions on_asker_broken(absl::Duration now, StreamNumber stream);
  AgentActions on_asked_agent(absl::Duration now, const Envelope& envelope);
  AgentActions on_asked_agent_broken(absl::Duration now, const std::string& why);
  // On the line of AskPartner::number.
  AgentActions on_partner(absl::Duration now, int64_t number, const Envelope& envelope);
  AgentActions on_partner_broken(absl::Duration now, int64_t number, const std::string& why);

  // Of workers and standbys.
  AgentActions on_spawned(absl::Duration now, int64_t start, pid_t pid);
  AgentActions on_not_spawned(absl::Duration now, int64_t start, const std::string& why);
  AgentActions on_exit(absl::Duration now, int64_t start, const ExitStatus& exit,
                       const WorkerLogTail& words);

 private:
  enum class Phase { kAway, kAttaching, kRegistering, kReady, kQuitting };

  void handle(const Envelope&, const Welcome& welcome);
  void handle(const Envelope& envelope, const StartWorker& start);
  void handle(const Envelope& envelope, const KillWorker& kill);
  void handle(const Envelope& envelope, const SendOrder& order);
  void handle(const Envelope&, const KeepStandbys& order);
  void handle(const Envelope&, const JoinerWanted& wanted) { act(standbys_.on_wanted(wanted)); }
  void handle(const Envelope&, const PlanUpdate& update);
  void handle(const Envelope&, const PlanWanted&) { act(plans_.on_wanted()); }
  void handle(const Envelope&, const FetchPlan& fetch);
  void handle(const Envelope&, const AskPartners& order) { act(partners_.ask(now_, order)); }
  void handle(const Envelope&, const Drain&) { act(workers_.drain()); }
  void handle(const Envelope&, const EndJob& end);
  void handle(const Envelope&, const Beat& beat) { controller_.on_lateness(now_, beat.late); }
  template <typename Other>
  void handle(const Envelope&, const Other&) {}

  void follow(AgentWorkers::Entry& worker, HeardOfWorker heard);
  // False: no standby is there on that stream.
  bool hear_standby(StreamNumber from, const Envelope& envelope);
  // False: no worker that was to become a standby is there.
  bool adopt_standby(StreamNumber from, const Envelope& envelope);
  void lose_standby(int64_t number, const std::string& how);
  void act(AgentActions actions);
  // By a warm standby, if there is one.
  void start(SpawnWorker spawn);

  void beat();
  void attach();
  void lose_controller();
  void ready_if_all_registered();
  bool waits_for_health() const { return options_.waits_for_health && !complaints_; }
  void tell_ready();
  StandbysKept kept() const;
  void tell_standbys(std::string failure = "");
  void quit(bool ok, const std::string& reason);
  void quit_if_alone();
  void tell(ControlMessage message, int64_t start = 0) {
    actions_.emplace_back(ToController{{start, std::move(message)}});
  }
  AgentActions take() { return std::exchange(actions_, {}); }

  const AgentCoreOptions options_;
  AgentActions actions_;  // of the call at hand
  StallAdjustedClock time_;
  absl::Duration now_;  // as all the times below without own standstill
  Phase phase_ = Phase::kAway;
  absl::Duration due_;          // kAway: retry; kRegistering: go on without who is missing
  absl::Duration measured_by_;  // kRegistering: go on without the machine's measurement
  absl::Duration away_since_;
  absl::Duration next_beat_;
  FollowedController controller_;
  AgentWorkers workers_;
  AgentStandbys standbys_;
  AgentPlans plans_;
  AgentPartners partners_;
  std::optional<std::vector<std::string>> complaints_;  // nullopt: not known yet
  std::deque<Envelope> untold_;                         // reports while no controller is there
  QuitAgent end_;
};

}  // namespace evermoe
