// For tests of the relay, a language: node n attaches on stream n + 1, times are seconds, and what
// is sent is one line of text.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/controller/relay/controller_relay.h"

namespace evermoe {

inline constexpr int64_t kRunStream = 100;
// The first start that a controller gives out.
constexpr int64_t first_start(int64_t life) { return (life << 32) + 1; }

inline std::string words_of(const ControlMessage& message, int64_t start) {
  return std::visit(
      [&](const auto& what) -> std::string {
        using Message = std::decay_t<decltype(what)>;
        if constexpr (std::is_same_v<Message, Welcome>) return absl::StrCat("welcome ", what.life);
        if constexpr (std::is_same_v<Message, Beat>) return "beat";
        if constexpr (std::is_same_v<Message, StartWorker>)
          return absl::StrCat("start rank ", what.rank.value);
        if constexpr (std::is_same_v<Message, KillWorker>)
          return absl::StrCat("kill ", start & 0xffff, " of rank ", what.rank.value);
        if constexpr (std::is_same_v<Message, SendOrder>) {
          const char* const orders[] = {"stop", "plan", "release", "leave"};
          return absl::StrCat(orders[what.message.index()], " rank ", what.rank.value);
        }
        if constexpr (std::is_same_v<Message, PlanUpdate>) {
          if (what.to.empty()) return "plan";
          return absl::StrJoin(what.to, ", ", [](std::string* out, const auto& one) {
            absl::StrAppend(out, "plan rank ", one.rank.value);
          });
        }
        if constexpr (std::is_same_v<Message, FetchPlan>)
          return absl::StrCat("fetch from ", what.from, " within ",
                              absl::FormatDuration(what.patience));
        if constexpr (std::is_same_v<Message, AskPartners>)
          return absl::StrCat(
              "ask ", absl::StrJoin(what.partners, " ", [](std::string* out, const auto& one) {
                absl::StrAppend(out, one.lines);
              }));
        if constexpr (std::is_same_v<Message, Drain>) return "drain";
        if constexpr (std::is_same_v<Message, ConfirmTerm>)
          return absl::StrCat("is it ours after ", what.losses, " losses?");
        if constexpr (std::is_same_v<Message, EndJob>) return absl::StrCat("end: ", what.reason);
        if constexpr (std::is_same_v<Message, JobEvent> || std::is_same_v<Message, JobStatus>)
          return "";
        if constexpr (std::is_same_v<Message, RoleProcess>)
          return absl::StrCat("rank ", what.rank.value, " is ", what.pid);
        if constexpr (std::is_same_v<Message, NodeLost>) {
          return absl::StrCat("node ", what.node.value, " (", what.agent, ") lost: ", what.why);
        }
        if constexpr (std::is_same_v<Message, WorkerLogTail>) return "words";
        return "";
      },
      message);
}

struct TestRelayOptions {  // times in seconds
  int64_t life = 0;
  int nodes = 2;
  double return_max = 0, network_max = 0;
  size_t plan_branches = 8;
  bool hosts_may_change = false;
};

// Two stages of one lane on nodes 0 and 1, one spare.
class TestRelay {
 public:
  explicit TestRelay(const TestRelayOptions& options = {})
      : relay_(Topology({1, 1}, 2), core(options),
               RelayOptions{.life = options.life,
                            .return_max = absl::Seconds(options.return_max),
                            .plan_branches = options.plan_branches},
               absl::ZeroDuration()),
        life_(options.life) {}

  TestRelay& wait(double seconds) {
    const absl::Duration end = now_ + absl::Seconds(seconds);
    while (now_ < end) {
      now_ = std::min({end, std::max(relay_.next_deadline(), now_ + absl::Milliseconds(1)),
                       now_ + absl::Seconds(0.4)});
      for (const int64_t stream : beating_)
        note(relay_.on_envelope(now_, StreamNumber(stream), {0, Beat{}}));
      for (const auto& [rank, start] : living_) alive(rank, start);
      note(relay_.on_time(now_));
    }
    return *this;
  }
  TestRelay& stand_still(double seconds) {
    now_ += absl::Seconds(seconds);
    return note(relay_.on_time(now_));
  }

  TestRelay& hears(int64_t stream, ControlMessage message, int64_t start = 0) {
    return note(relay_.on_envelope(now_, StreamNumber(stream), {start, std::move(message)}));
  }
  TestRelay& breaks(int64_t stream) {
    beating_.erase(stream);
    return note(relay_.on_broken(now_, StreamNumber(stream), "it has gone"));
  }
  TestRelay& agent(int node, int64_t stream) {
    beating_.insert(stream);
    return hears(stream, AgentHello{.node = Node(node),
                                    .pid = 1000 + static_cast<pid_t>(stream),
                                    .lines = is_network_ ? absl::StrCat("node-", node, ":1") : "",
                                    .incarnation = stream});
  }
  // Agents that come from now on can be asked for plans.
  TestRelay& over_a_network() {
    is_network_ = true;
    return *this;
  }
  TestRelay& agent(int node) { return agent(node, node + 1); }
  // The agent of the node that was on `former`, on a new line.
  TestRelay& returns(int node, int64_t former, int64_t stream) {
    beating_.erase(former);
    beating_.insert(stream);
    return hears(stream, AgentHello{.node = Node(node),
                                    .pid = 1000 + static_cast<pid_t>(former),
                                    .incarnation = former});
  }
  TestRelay& ready(int64_t stream) { return hears(stream, AgentReady{}); }
  TestRelay& run_attaches() {
    beating_.insert(kRunStream);
    return hears(kRunStream, RunHello{});
  }
  // The process of the rank gives no sign of life any more; its agent does.
  TestRelay& hangs(int rank) {
    living_.erase(rank);
    return *this;
  }
  TestRelay& falls_silent(int64_t stream) {
    beating_.erase(stream);
    std::erase_if(living_, [&](const auto& one) { return one.first + 1 == stream; });
    return *this;
  }

  TestRelay& alive(int rank, int64_t start) {
    return hears(rank + 1, Beat{.alive = {{start, {Rank(rank), since(rank), view_}}}});
  }
  // Members say from now on that the rank is played since this view.
  TestRelay& plays_since(int rank, View view) {
    since_[rank] = view;
    return *this;
  }
  // The view that those who live are in.
  TestRelay& is_in(View view) {
    view_ = view;
    return *this;
  }
  // A process of the rank, on the node of the same number, fresh or in `view`.
  TestRelay& started(int rank, int64_t start) {
    return hears(rank + 1, WorkerStarted{Rank(rank), since(rank), 10 + rank}, start);
  }
  TestRelay& joined(int rank, int64_t start, View view = View(0)) {
    MemberJoined joined;
    joined.rank = Rank(rank);
    joined.since = since(rank);
    joined.newest_view = joined.stage_epoch = view;
    joined.is_open = view > View(0);
    living_[rank] = start;
    return hears(rank + 1, joined, start);
  }
  TestRelay& reports(int rank, int64_t start, View view) {
    Report report;
    report.view = view;
    report.rank = Rank(rank);
    return hears(rank + 1, MemberSaid{Rank(rank), since(rank), report}, start);
  }
  // All have gathered the state with which the view begins.
  TestRelay& restored() {
    for (const auto& [rank, start] : living_) {
      const Milestone milestone{view_, Rank(rank), Milestone::Kind::kRestored};
      hears(rank + 1, MemberSaid{Rank(rank), since(rank), milestone}, start);
    }
    return *this;
  }
  TestRelay& ended(int rank, int64_t start) {
    living_.erase(rank);
    return hears(
        rank + 1,
        WorkerEnded{Rank(rank), since(rank), Node(rank), "killed by signal 9", false, false},
        start);
  }

  // Both nodes are there and ready and both ranks run in view 1.
  TestRelay& job_runs() {
    for (const int node : {0, 1}) agent(node).ready(node + 1);
    const int64_t start = first_start(life_);
    for (const int rank : {0, 1}) started(rank, start + rank).joined(rank, start + rank);
    for (const int rank : {0, 1}) reports(rank, start + rank, View(1));
    view_ = View(1);
    did();
    return *this;
  }

  // What it sent since the last call, "stream: what", without beats.
  std::string did() { return absl::StrJoin(std::exchange(did_, {}), ", "); }
  std::string logged() { return absl::StrJoin(std::exchange(logged_, {}), "\n"); }
  // What the run was told of the job since the last call, in its order: "note" and "words".
  std::string story() { return absl::StrJoin(std::exchange(story_, {}), ", "); }
  const ControllerRelay& relay() const { return relay_; }
  const JobStatus& status() const { return status_; }  // the newest one that it told
  const FetchPlan& fetch() const { return fetch_; }    // likewise
  const RecoveryNote& recovery() const { return recovery_; }
  const PlanUpdate& update() const { return update_; }

 private:
  View since(int rank) const {
    const auto found = since_.find(rank);
    return found == since_.end() ? View(1) : found->second;
  }
  static ControllerOptions core(const TestRelayOptions& options) {
    ControllerOptions core;
    core.hosts_may_change = options.hosts_may_change;
    core.network_max = absl::Seconds(options.network_max);
    core.nodes = options.nodes;
    core.spares = 1;
    core.takes_over = options.life > 0;
    return core;
  }
  TestRelay& note(const std::vector<RelayAction>& actions) {
    for (const RelayAction& action : actions) {
      if (const auto* const send = std::get_if<SendEnvelope>(&action)) {
        if (const auto* const status = std::get_if<JobStatus>(&send->envelope.message))
          status_ = *status;
        if (const auto* const fetch = std::get_if<FetchPlan>(&send->envelope.message))
          fetch_ = *fetch;
        if (const auto* const update = std::get_if<PlanUpdate>(&send->envelope.message))
          update_ = *update;
        if (const auto* const note = std::get_if<RecoveryNote>(&send->envelope.message)) {
          recovery_ = *note;
          story_.emplace_back("note");
        }
        if (std::holds_alternative<JobEvent>(send->envelope.message)) story_.emplace_back("words");
        const std::string words = words_of(send->envelope.message, send->envelope.start);
        if (!words.empty() && words != "beat") {
          did_.push_back(absl::StrCat(
              send->to == StreamNumber(kRunStream) ? "run" : absl::StrCat(send->to.value), ": ",
              words));
        }
      } else if (const auto* const cut = std::get_if<CutStream>(&action)) {
        did_.push_back(absl::StrCat("cut ", cut->stream.value));
      } else {
        logged_.push_back(std::get<LogLine>(action).text);
      }
    }
    return *this;
  }

  absl::Duration now_;
  ControllerRelay relay_;
  const int64_t life_;
  View view_;
  std::set<int64_t> beating_;      // streams that give signs of life
  std::map<int, int64_t> living_;  // ranks that do, and their starts
  std::vector<std::string> did_, logged_, story_;
  JobStatus status_;
  FetchPlan fetch_;
  PlanUpdate update_;
  RecoveryNote recovery_;
  bool is_network_ = false;
  std::map<int, View> since_;
};

}  // namespace evermoe
