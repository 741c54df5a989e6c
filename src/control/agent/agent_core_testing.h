// For tests of the agent of a node, a language: times are seconds, numbers of starts and streams
// are plain, and what the agent does is one line of text.
#pragma once

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/agent/agent_core.h"

namespace evermoe {

inline constexpr pid_t kAgentPid = 77;

// Of what an agent does.
struct AgentWords {
  // "beat", or "alive 5 in 1, 6 in 1": starts of workers, and the views that they have entered.
  static std::string of_beat(const Beat& beat) {
    if (beat.alive.empty()) return "beat";
    return absl::StrCat(
        "alive ", absl::StrJoin(beat.alive, ", ", [](std::string* out, const AliveWorker& one) {
          absl::StrAppend(out, one.start, " in ", one.sign.entered.value);
        }));
  }
  std::string operator()(const AttachController&) const { return "attach"; }
  std::string operator()(const ToController& to) const {
    const int64_t start = to.envelope.start;
    const auto of = [&](const std::string& what) { return absl::StrCat(what, " ", start); };
    return std::visit(
        [&](const auto& message) -> std::string {
          using Message = std::decay_t<decltype(message)>;
          if constexpr (std::is_same_v<Message, AgentHello>)
            return absl::StrCat("hello of ", message.node.value);
          if constexpr (std::is_same_v<Message, AgentReady>)
            return absl::StrCat("ready", message.complaints.empty() ? "" : " but ",
                                absl::StrJoin(message.complaints, "; "));
          if constexpr (std::is_same_v<Message, Beat>) return of_beat(message);
          if constexpr (std::is_same_v<Message, WorkerStarted>) return of("started");
          if constexpr (std::is_same_v<Message, MemberJoined>) return of("joined");
          if constexpr (std::is_same_v<Message, MemberSaid>) return of("said");
          if constexpr (std::is_same_v<Message, WorkerEnded>)
            return absl::StrCat(of("ended"), " (", message.how, ")");
          if constexpr (std::is_same_v<Message, WorkerLogTail>) return "words";
          if constexpr (std::is_same_v<Message, PartnersAsked>)
            return absl::StrCat(
                "asked in round ", message.round, ": ",
                absl::StrJoin(message.silent, ", ", [](std::string* out, const auto& one) {
                  absl::StrAppend(out, one.node.value, " (", one.why, ")");
                }));
          if constexpr (std::is_same_v<Message, StandbysKept>)
            return absl::StrCat(message.warming, " warming, ", message.warm, " warm",
                                message.failure.empty() ? "" : ": ", message.failure);
          if constexpr (std::is_same_v<Message, JoinerReady>)
            return absl::StrCat("joiner of ", message.rank.value, " at ", message.joiner.address);
          if constexpr (std::is_same_v<Message, PlanWanted>) return "wants plan";
          if constexpr (std::is_same_v<Message, PlanHeld>) return "holds plan";
          return "something else";
        },
        to.envelope.message);
  }
  std::string operator()(const ToWorker& to) const {
    const auto* const welcome = std::get_if<Welcome>(&to.envelope.message);
    if (const auto* const wanted = std::get_if<JoinerWanted>(&to.envelope.message))
      return absl::StrCat(to.to.value, wanted->is_off ? " does not wait" : " waits", " for ",
                          wanted->rank.value);
    return absl::StrCat(welcome != nullptr ? absl::StrCat("welcome ", welcome->life) : "order",
                        " to ", to.to.value);
  }
  std::string operator()(const CutWorker& cut) const {
    return absl::StrCat("cut ", cut.stream.value);
  }
  std::string operator()(const SpawnWorker& spawn) const {
    return absl::StrCat("spawn ", spawn.start);
  }
  std::string operator()(const SpawnStandby& spawn) const {
    const auto add = [](std::string* out, Rank role) { absl::StrAppend(out, role.value); };
    return absl::StrCat("spawn standby ", -spawn.number, spawn.roles.empty() ? "" : " for ",
                        absl::StrJoin(spawn.roles, " and ", add));
  }
  std::string operator()(const PromoteStandby& promote) const {
    return absl::StrCat("standby ", -promote.number, " is ", promote.role.start);
  }
  std::string operator()(const RelieveWorker& relieve) const {
    return absl::StrCat("relieve ", relieve.start);
  }
  std::string operator()(const AdoptStandby& adopt) const {
    return absl::StrCat(adopt.start, " is standby ", -adopt.number);
  }
  std::string operator()(const SignalWorker& signal) const {
    return absl::StrCat(signal.signal == SIGKILL ? "kill " : "ask to drain ",
                        signal.start < 0 ? "standby " : "", std::abs(signal.start));
  }
  std::string operator()(const AskForPlan& ask) const { return absl::StrCat("ask ", ask.at); }
  std::string operator()(const StopAsking& stop) const {
    return stop.why.empty() ? "stop asking" : absl::StrCat("stop asking (", stop.why, ")");
  }
  std::string operator()(const CutAsker& cut) const {
    return absl::StrCat("cut asker ", cut.stream.value);
  }
  std::string operator()(const AskPartner& ask) const {
    return absl::StrCat("question ", ask.number, " to ", ask.at);
  }
  std::string operator()(const DropQuestion& drop) const {
    return absl::StrCat("drop ", drop.number);
  }
  std::string operator()(const ToAskers& told) const {
    const bool is_answer = std::holds_alternative<PartnerAnswer>(told.envelope.message);
    return absl::StrCat(is_answer ? "answer asker " : "tell asker ",
                        absl::StrJoin(told.to, " and ", [](std::string* out, StreamNumber to) {
                          absl::StrAppend(out, to.value);
                        }));
  }
  std::string operator()(const QuitAgent& quit) const {
    return absl::StrCat(quit.ok ? "quit: " : "fail: ", quit.reason);
  }
};

// The agent of node 1. A worker's stream has the number of its start, and so has its pid; those of
// standby n are 100 + n.
class TestAgent {
 public:
  explicit TestAgent(bool waits_for_health = false)
      : core_(options(waits_for_health), absl::ZeroDuration()) {}

  // Time passes as it does for a process that runs: it is looked at often.
  TestAgent& wait(double seconds) {
    const absl::Duration end = now_ + absl::Seconds(seconds);
    while (now_ < end) {
      now_ = std::min({end, std::max(core_.next_deadline(), now_ + absl::Milliseconds(1)),
                       now_ + absl::Seconds(1)});
      note(core_.on_time(now_));
    }
    return *this;
  }
  // The process itself stands still.
  TestAgent& stand_still(double seconds) {
    now_ += absl::Seconds(seconds);
    note(core_.on_time(now_));
    return *this;
  }
  TestAgent& tick() { return stand_still(0); }

  TestAgent& welcome(int64_t life, int64_t term = 1) {
    return from_controller(Welcome{life, {term, "owner", "", 0}});
  }
  // Of the host of a job, which has the job's term of that number.
  TestAgent& welcome_of_host(int64_t life, int64_t term, const std::string& job = "j") {
    return from_controller(Welcome{life, {term, "owner", job, term - 1}});
  }
  TestAgent& broken() { return note(core_.on_controller_broken(now_)); }
  TestAgent& start(int64_t start, int rank) {
    return from_controller(StartWorker{Node(1), Rank(rank), View(1)}, start);
  }
  TestAgent& told_to_kill(int64_t start, int rank) {
    return from_controller(KillWorker{Node(1), Rank(rank), View(1), "why"}, start);
  }
  // Its role is another process's.
  TestAgent& told_to_relieve(int64_t start, int rank) {
    return from_controller(KillWorker{Node(1), Rank(rank), View(1), "why", true}, start);
  }
  TestAgent& order(int64_t start, int rank) {
    return from_controller(SendOrder{Rank(rank), View(1), StopOrder{View(2)}}, start);
  }
  TestAgent& from_controller(ControlMessage message, int64_t start = 0) {
    return note(core_.on_controller(now_, {start, std::move(message)}));
  }

  // Another agent, on a line of that number, and the one that is asked.
  TestAgent& asked_for(int64_t asker, const PlanName& plan) {
    return asker_says(asker, PlanWanted{plan});
  }
  TestAgent& asker_says(int64_t asker, ControlMessage message) {
    return note(core_.on_asker(now_, StreamNumber(asker), {0, std::move(message)}));
  }
  TestAgent& asker_goes(int64_t asker) {
    return note(core_.on_asker_broken(now_, StreamNumber(asker)));
  }
  TestAgent& other_agent_tells(ControlMessage message) {
    return note(core_.on_asked_agent(now_, {0, std::move(message)}));
  }
  TestAgent& partner_answers(int64_t question, int node) {
    return note(core_.on_partner(now_, question, {0, PartnerAnswer{Node(node), ""}}));
  }
  TestAgent& partner_breaks(int64_t question) {
    return note(core_.on_partner_broken(now_, question, "no route"));
  }
  TestAgent& other_agent_goes() { return note(core_.on_asked_agent_broken(now_, "it has gone")); }

  TestAgent& attaches(int64_t start) {
    return from_worker(start, WorkerHello{static_cast<pid_t>(start)});
  }
  TestAgent& joins(int64_t start, int rank) {
    MemberJoined joined;
    joined.rank = Rank(rank);
    joined.since = View(1);
    return from_worker(start, joined);
  }
  TestAgent& says(int64_t start, int rank) {
    return from_worker(start, MemberSaid{Rank(rank), View(1), Finished{Rank(rank), Step(3)}});
  }
  TestAgent& lives(int64_t start, int rank, View entered = View(1)) {
    return from_worker(start, MemberAlive{Rank(rank), View(1), entered});
  }
  TestAgent& commits(int64_t start, int rank, Commit commit, View view = View(1)) {
    return from_worker(start, MemberSaid{Rank(rank), View(1), Progress{view, Rank(rank), commit}});
  }
  TestAgent& from_worker(int64_t stream, ControlMessage message) {
    return note(core_.on_worker(now_, StreamNumber(stream), {0, std::move(message)}));
  }
  TestAgent& line_breaks(int64_t start) {
    return note(core_.on_worker_broken(now_, StreamNumber(start)));
  }
  TestAgent& exits(int64_t start, ExitStatus how, std::vector<std::string> words = {}) {
    return note(core_.on_exit(now_, start, how, WorkerLogTail{Rank(0), "log", std::move(words)}));
  }
  TestAgent& killed(int64_t start) { return exits(start, {.signal = SIGKILL}); }
  TestAgent& cannot_spawn() {
    spawns_ = false;
    return *this;
  }

  TestAgent& keeps_standbys(int count, std::vector<Rank> roles = {}) {
    return from_controller(KeepStandbys{Node(1), count, std::move(roles)});
  }
  TestAgent& wants_joiner(int rank, bool is_off = false) {
    return from_controller(
        JoinerWanted{Node(1), Rank(rank), View(1), View(2), {"leaver", View(1)}, is_off});
  }
  TestAgent& standby_warms_up(int standby) {
    return from_worker(100 + standby, WorkerHello{static_cast<pid_t>(100 + standby)})
        .from_worker(100 + standby, StandbyWarm{});
  }

  TestAgent& is_checked(std::vector<std::string> complaints) {
    return note(core_.on_health(now_, std::move(complaints)));
  }

  // A worker of this rank lives and is known to the controller.
  TestAgent& runs(int64_t number, int rank) {
    return start(number, rank).attaches(number).joins(number, rank);
  }

  // Sees what it tells the controller.
  void on_told(std::function<void(const ControlMessage&)> hear) { hear_ = std::move(hear); }
  // The newest plan that it handed on to a worker.
  const std::optional<Plan>& plan() const { return plan_; }
  // What it did since the last call, without signs of life that tell of no worker.
  std::string did() { return absl::StrJoin(std::exchange(did_, {}), ", "); }

 private:
  static AgentCoreOptions options(bool waits_for_health) {
    AgentCoreOptions options;
    options.waits_for_health = waits_for_health;
    options.node = Node(1);
    options.pid = kAgentPid;
    return options;
  }
  TestAgent& note(const AgentActions& actions) {
    for (const AgentAction& action : actions) {
      const std::string words = std::visit(AgentWords(), action);
      if (words != "beat") did_.push_back(words);
      if (const auto* const to = std::get_if<ToWorker>(&action)) remember(to->envelope);
      if (const auto* const to = std::get_if<ToController>(&action); to != nullptr && hear_)
        hear_(to->envelope.message);
      if (const auto* const spawn = std::get_if<SpawnWorker>(&action))
        note_spawned(spawn->start, spawn->start);
      if (const auto* const spawn = std::get_if<SpawnStandby>(&action))
        note_spawned(spawn->number, 100 - spawn->number);
      if (const auto* const promote = std::get_if<PromoteStandby>(&action))
        note(
            core_.on_spawned(now_, promote->role.start, static_cast<pid_t>(100 - promote->number)));
    }
    return *this;
  }
  void note_spawned(int64_t number, int64_t pid) {
    if (spawns_)
      note(core_.on_spawned(now_, number, static_cast<pid_t>(pid)));
    else
      note(core_.on_not_spawned(now_, number, "no memory"));
  }

  void remember(const Envelope& envelope) {
    const auto* const order = std::get_if<SendOrder>(&envelope.message);
    if (order == nullptr) return;
    if (const auto* const plan = std::get_if<Plan>(&order->message)) plan_ = *plan;
  }

  std::optional<Plan> plan_;
  absl::Duration now_;
  AgentCore core_;
  bool spawns_ = true;
  std::function<void(const ControlMessage&)> hear_;
  std::vector<std::string> did_;
};

// It has a controller and no workers.
inline TestAgent ready_agent() {
  TestAgent agent;
  agent.tick().welcome(0).did();
  return agent;
}

}  // namespace evermoe
