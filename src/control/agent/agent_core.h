// What the agent of a node decides: which worker processes run here, and what is handed on between
// them and the controller. Pure: events and time in, actions out.
//
//   away --(retry)--> attaching --(Welcome)--> registering --(all workers have)--> ready
//    ^                    |                         |                                |
//    +--------------------+----- broken, silent ----+--------------------------------+
//
// Workers go on while the controller is away. With every controller that answers, the agent brings
// together what lives here: every worker registers anew. If others play their roles by then the
// controller says so. When another run has begun (checkpoint/write/folder_term.h) the agent ends
// its workers; to a controller of an older run than one that it has met it does not listen.
//
// Invariant: at most one process per role runs here; the next one waits until the former has ended.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "control/controller/stall_adjusted_clock.h"
#include "control/wire/control_messages.h"
#include "control/wire/control_stream.h"
#include "env/process.h"

namespace evermoe {

struct AgentCoreOptions {
  Node node;
  pid_t pid = 0;  // the agent's own
  absl::Duration beat = absl::Milliseconds(500);
  absl::Duration silence_max = absl::Seconds(10);    // of a controller that is taken for gone
  absl::Duration own_standstill = absl::Seconds(2);  // stall_adjusted_clock.h
  absl::Duration retry = absl::Milliseconds(50);     // between two attempts to find one
  absl::Duration registering_max =
      absl::Seconds(1);  // workers that have not registered by then are left out
  absl::Duration away_max = absl::Minutes(5);  // without a controller: then all ends here
};

struct AttachController {};  // on a new stream, instead of the present one
struct ToController {
  Envelope envelope;
};
struct ToWorker {
  StreamNumber to;
  Envelope envelope;
};
struct CutWorker {
  StreamNumber stream;
};
struct SpawnWorker {  // answered by on_spawned() or on_not_spawned(), at once
  int64_t start = 0;
  Rank rank;
  View since;
  FolderTerm term;  // of the run that wants it
};
struct SignalWorker {
  int64_t start = 0;
  int signal = 0;
};
struct QuitAgent {  // no worker runs any more
  bool ok = false;
  std::string reason;
};
using AgentAction = std::variant<AttachController, ToController, ToWorker, CutWorker, SpawnWorker,
                                 SignalWorker, QuitAgent>;
using AgentActions = std::vector<AgentAction>;

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

  AgentActions on_spawned(absl::Duration now, int64_t start, pid_t pid);
  AgentActions on_not_spawned(absl::Duration now, int64_t start, const std::string& why);
  AgentActions on_exit(absl::Duration now, int64_t start, const ExitStatus& exit,
                       const WorkerLogTail& words);

 private:
  enum class Phase { kAway, kAttaching, kRegistering, kReady, kQuitting };
  struct Worker {
    Rank rank;
    View since;
    pid_t pid = 0;
    std::optional<StreamNumber> stream;
    bool is_registered = false;  // with the present controller
    bool is_asked_to_drain = false;
    bool is_disowned = false;  // no controller wants to hear of it any more
    std::optional<WorkerReport> failed;
  };
  using Workers = std::map<int64_t, Worker>;  // by start

  void handle(const Envelope&, const Welcome& welcome);
  void handle(const Envelope& envelope, const StartWorker& start);
  void handle(const Envelope& envelope, const KillWorker& kill);
  void handle(const Envelope& envelope, const SendOrder& order);
  void handle(const Envelope&, const Drain&);
  void handle(const Envelope&, const EndJob& end);
  template <typename Other>
  void handle(const Envelope&, const Other&) {}  // Beat

  void hear(Workers::value_type& worker, const MemberJoined& joined);
  void hear(Workers::value_type& worker, const MemberSaid& said);
  void hear(Workers::value_type& worker, const MemberAlive& alive);
  void hear(Workers::value_type& worker, const WorkerReport& report);
  template <typename Other>
  void hear(Workers::value_type& worker, const Other&) {
    refuse(worker);  // nobody says that to an agent
  }
  void greet(StreamNumber stream, pid_t pid);
  void refuse(Workers::value_type& worker);
  absl::Duration next_due() const;
  bool speaks_for_itself(const Workers::value_type& worker, Rank rank, View since) const;

  void attach();
  void lose_controller();
  void disown_all();
  void ready_if_all_registered();
  void spawn(int64_t start, const StartWorker& order);
  void spawn_waiting(Rank rank);
  void ask_to_drain(Workers::value_type& worker);
  void quit(bool ok, const std::string& reason);
  void quit_if_alone();
  bool has_controller() const { return phase_ == Phase::kRegistering || phase_ == Phase::kReady; }
  void tell(ControlMessage message, int64_t start = 0) {
    actions_.emplace_back(ToController{{start, std::move(message)}});
  }
  AgentActions take() { return std::exchange(actions_, {}); }

  const AgentCoreOptions options_;
  AgentActions actions_;  // of the call at hand
  StallAdjustedClock time_;
  absl::Duration now_;  // as all the times below without own standstill
  Phase phase_ = Phase::kAway;
  absl::Duration due_;  // kAway: retry; kRegistering: go on without who is missing
  absl::Duration away_since_;
  absl::Duration heard_;  // from the controller
  absl::Duration next_beat_;
  std::optional<int64_t> life_;  // of the newest controller met
  FolderTerm term_;              // likewise
  Workers workers_;
  std::map<Rank, std::pair<int64_t, StartWorker>>
      waiting_;  // for the former process of the role to end
  bool is_draining_ = false;
  std::deque<Envelope> untold_;  // reports while no controller is there
  QuitAgent end_;
};

}  // namespace evermoe
