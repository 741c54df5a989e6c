// What stands between the streams of a controller and its core, in a language of its own: node n
// attaches on stream n + 1, times are seconds, and what is sent is one line of text.
#include "control/controller/relay/controller_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kRunStream = 100;
// The first start that a controller gives out.
constexpr int64_t first_start(int64_t life) { return (life << 32) + 1; }

std::string words_of(const ControlMessage& message, int64_t start) {
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
          const char* const orders[] = {"stop", "plan", "release"};
          return absl::StrCat(orders[what.message.index()], " rank ", what.rank.value);
        }
        if constexpr (std::is_same_v<Message, Drain>) return "drain";
        if constexpr (std::is_same_v<Message, EndJob>) return absl::StrCat("end: ", what.reason);
        if constexpr (std::is_same_v<Message, JobEvent>) return "";
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

// Two stages of one lane on nodes 0 and 1, one spare.
class TestRelay {
 public:
  explicit TestRelay(int64_t life = 0, int nodes = 2)
      : relay_(Topology({1, 1}, 2), core(life, nodes), RelayOptions{.life = life},
               absl::ZeroDuration()),
        life_(life) {}

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
    return hears(stream, AgentHello{Node(node), 1000 + static_cast<pid_t>(stream)});
  }
  TestRelay& agent(int node) { return agent(node, node + 1); }
  TestRelay& ready(int64_t stream) { return hears(stream, AgentReady{}); }
  TestRelay& run_attaches() {
    beating_.insert(kRunStream);
    return hears(kRunStream, RunHello{});
  }
  TestRelay& falls_silent(int64_t stream) {
    beating_.erase(stream);
    std::erase_if(living_, [&](const auto& one) { return one.first + 1 == stream; });
    return *this;
  }

  TestRelay& alive(int rank, int64_t start) {
    return hears(rank + 1, MemberAlive{Rank(rank), View(1), view_}, start);
  }
  // A process of the rank, on the node of the same number, fresh or in `view`.
  TestRelay& started(int rank, int64_t start) {
    return hears(rank + 1, WorkerStarted{Rank(rank), View(1), 10 + rank}, start);
  }
  TestRelay& joined(int rank, int64_t start, View view = View(0)) {
    MemberJoined joined;
    joined.rank = Rank(rank);
    joined.since = View(1);
    joined.newest_view = joined.stage_epoch = view;
    joined.is_open = view > View(0);
    living_[rank] = start;
    return hears(rank + 1, joined, start);
  }
  TestRelay& reports(int rank, int64_t start, View view) {
    Report report;
    report.view = view;
    report.rank = Rank(rank);
    return hears(rank + 1, MemberSaid{Rank(rank), View(1), report}, start);
  }
  TestRelay& ended(int rank, int64_t start) {
    living_.erase(rank);
    return hears(rank + 1,
                 WorkerEnded{Rank(rank), View(1), Node(rank), "killed by signal 9", false, false},
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
  const ControllerRelay& relay() const { return relay_; }

 private:
  static ControllerOptions core(int64_t life, int nodes) {
    ControllerOptions options;
    options.nodes = nodes;
    options.spares = 1;
    options.takes_over = life > 0;
    return options;
  }
  TestRelay& note(const std::vector<RelayAction>& actions) {
    for (const RelayAction& action : actions) {
      if (const auto* const send = std::get_if<SendEnvelope>(&action)) {
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
  std::vector<std::string> did_, logged_;
};

// ---- agents

TEST(ControllerRelay, TheJobBeginsWhenTheNodesAreReady) {
  TestRelay relay;
  EXPECT_EQ(relay.agent(0).agent(1).did(), "1: welcome 0, 2: welcome 0");
  EXPECT_EQ(relay.ready(1).did(), "");
  EXPECT_EQ(relay.ready(2).did(), "1: start rank 0, 2: start rank 1");
  EXPECT_EQ(relay.started(0, 1).joined(0, 1).started(1, 2).joined(1, 2).did(),
            "1: stop rank 0, 2: stop rank 1");
  EXPECT_EQ(relay.reports(0, 1, View(1)).reports(1, 2, View(1)).did(),
            "1: plan rank 0, 2: plan rank 1");
}

TEST(ControllerRelay, ASpareWaitsForTheOthers) {
  TestRelay relay;
  EXPECT_EQ(relay.agent(2).ready(3).wait(1.9).did(), "3: welcome 0");
  EXPECT_EQ(relay.wait(0.2).did(), "3: start rank 0, 3: start rank 1") << "but not for ever";
}

TEST(ControllerRelay, ASpareIsThereAtOnceWhenAllHaveCome) {
  TestRelay relay;
  relay.agent(2).ready(3).agent(0).ready(1).agent(1).ready(2).did();
  EXPECT_EQ(relay.breaks(1).did(), "3: start rank 0") << "takes over what node 0 was about to play";
}

TEST(ControllerRelay, AnAgentThatIsBackBeforeItsLineBreaksIsLostAndNewAgain) {
  TestRelay relay;
  relay.run_attaches().job_runs();
  relay.agent(0, 5);
  const std::string did = relay.did();
  EXPECT_THAT(did, HasSubstr("cut 1"));
  EXPECT_THAT(did, HasSubstr("run: node 0 (1001) lost: it attaches anew"));
  EXPECT_THAT(did, HasSubstr("5: welcome 0"));
  EXPECT_EQ(relay.breaks(1).did(), "") << "that is known";
}

TEST(ControllerRelay, ASilentAgentIsLost) {
  TestRelay relay;
  relay.run_attaches().job_runs().falls_silent(1).wait(9).did();
  const std::string did = relay.wait(1.5).did();
  EXPECT_THAT(did, HasSubstr("cut 1"));
  EXPECT_THAT(did, HasSubstr("run: node 0 (1001) lost: no sign of life for 10s"));
}

TEST(ControllerRelay, AControllerThatStoodStillTakesNobodyForSilent) {
  TestRelay relay;
  relay.job_runs();
  EXPECT_EQ(relay.stand_still(60).wait(4).did(), "");
}

TEST(ControllerRelay, AnAgentOfANodeThatIsNoneIsCutOff) {
  TestRelay relay;
  EXPECT_EQ(relay.agent(3).did(), "cut 4");
}

TEST(ControllerRelay, WhoSpeaksOutOfTurnIsCutOff) {
  TestRelay relay;
  EXPECT_EQ(relay.hears(7, AgentReady{}).did(), "cut 7") << "no hello";
  EXPECT_EQ(relay.hears(8, MemberAlive{Rank(0), View(1), View(1)}, 1).did(), "cut 8");
  EXPECT_EQ(relay.hears(9, Welcome{3}).did(), "cut 9") << "nobody says that to a controller";
  EXPECT_EQ(relay.run_attaches().hears(kRunStream, RunHello{}).did(),
            absl::StrCat("run: welcome 0, cut ", kRunStream));
  EXPECT_EQ(relay.agent(0).hears(1, WorkerStarted{Rank(2), View(1), 1}, 1).did(),
            "1: welcome 0, cut 1")
      << "no such rank";
  EXPECT_EQ(relay.agent(1).hears(2, Drain{}).did(), "2: welcome 0")
      << "a signal to any node drains the job";
}

TEST(ControllerRelay, AMemberSpeaksOfItselfAlone) {
  TestRelay relay;
  relay.job_runs();
  Report report;
  report.view = View(2);
  report.rank = Rank(1);
  EXPECT_THAT(relay.hears(1, MemberSaid{Rank(0), View(1), report}, 1).did(), HasSubstr("cut 1"));
}

// ---- processes of roles

TEST(ControllerRelay, TheNextProcessHasALargerNumberAndTheFormerIsToldToEnd) {
  TestRelay relay;
  relay.job_runs();
  EXPECT_THAT(relay.ended(0, 1).did(), HasSubstr("1: start rank 0"));
  relay.started(0, 3).did();
  EXPECT_EQ(relay.alive(0, 1).did(), "1: kill 1 of rank 0");
  EXPECT_EQ(relay.reports(0, 1, View(2)).did(), "1: kill 1 of rank 0") << "and is not heard";
}

TEST(ControllerRelay, WhoWasGivenUpWithItsNodeIsNotHeardWhenItIsBack) {
  TestRelay relay;
  relay.agent(2).ready(3).job_runs();
  EXPECT_THAT(relay.breaks(1).did(), HasSubstr("3: start rank 0"));
  relay.agent(0, 5).did();
  EXPECT_EQ(relay.hears(5, WorkerStarted{Rank(0), View(1), 10}, 1).did(), "5: kill 1 of rank 0");
}

TEST(ControllerRelay, OrdersAreForTheNewestProcess) {
  TestRelay relay(1);
  for (const int node : {0, 1}) relay.agent(node);
  // Two processes of rank 0 live; the newer one registers first.
  relay.hears(1, WorkerStarted{Rank(0), View(1), 10}, 7).did();
  EXPECT_EQ(relay.hears(2, WorkerStarted{Rank(0), View(1), 11}, 6).did(), "2: kill 6 of rank 0");
}

// ---- a new controller

TEST(ControllerRelay, ANewControllerAdoptsWhatLives) {
  TestRelay relay(1);
  for (const int node : {0, 1})
    relay.agent(node).started(node, node + 1).joined(node, node + 1, View(4)).ready(node + 1);
  EXPECT_EQ(relay.did(), "1: welcome 1, 2: welcome 1")
      << "nothing has happened but the change of controllers";
  EXPECT_EQ(relay.wait(4).did(), "");
}

TEST(ControllerRelay, AndStartsWhatDoesNot) {
  TestRelay relay(1);
  relay.agent(0).started(0, 1).joined(0, 1, View(4)).ready(1).agent(1).ready(2).did();
  const std::string did = relay.wait(2.1).did();
  EXPECT_THAT(did, HasSubstr("1: stop rank 0"));
  EXPECT_THAT(did, HasSubstr("2: start rank 1"));
}

TEST(ControllerRelay, ItsStartsAreNewerThanThoseOfTheFormer) {
  TestRelay relay(3);
  relay.run_attaches().agent(0).ready(1).agent(1).ready(2).wait(2.1).did();
  EXPECT_EQ(relay.started(0, first_start(2) + 500).did(), "1: kill 501 of rank 0");
  EXPECT_EQ(relay.started(0, first_start(3)).did(), "run: rank 0 is 10");
}

// ---- the run

TEST(ControllerRelay, ARunThatComesLateHearsWhatHappened) {
  TestRelay relay;
  relay.job_runs();
  relay.hears(1, WorkerLogTail{Rank(0), "log", {"last words"}});
  EXPECT_EQ(relay.run_attaches().did(),
            "run: welcome 0, run: rank 0 is 10, run: rank 1 is 11, run: words");
  EXPECT_EQ(relay.ended(1, 2).did(), "run: rank 1 is 0, 1: stop rank 0, 2: start rank 1");
}

TEST(ControllerRelay, WhatNobodyHearsIsKeptWithinALimit) {
  TestRelay relay;
  relay.agent(0);
  for (int i = 0; i < 5000; ++i) relay.hears(1, WorkerLogTail{Rank(0), "log", {}});
  relay.did();
  const std::string did = relay.run_attaches().did();
  EXPECT_EQ(std::count(did.begin(), did.end(), ','), 4096);
}

TEST(ControllerRelay, AWishToDrainReachesThoseWhoComeLaterToo) {
  TestRelay relay;
  relay.run_attaches().agent(0).ready(1).agent(1).did();
  EXPECT_EQ(relay.hears(kRunStream, Drain{}).did(), "1: drain");
  EXPECT_THAT(relay.ready(2).did(), HasSubstr("2: drain"));
}

TEST(ControllerRelay, AllAreToldOfTheEndAndNothingHappensAfterIt) {
  TestRelay relay;
  relay.run_attaches().job_runs();
  WorkerEnded ended{Rank(0), View(1), Node(0), "no such file", false, true};
  const std::string did = relay.hears(1, ended, 1).did();
  for (const char* const who : {"1: ", "2: ", "run: "})
    EXPECT_THAT(did, HasSubstr(absl::StrCat(who, "end: no such file")));
  ASSERT_TRUE(relay.relay().end().has_value());
  EXPECT_TRUE(relay.relay().end()->bad_input);
  EXPECT_EQ(relay.alive(1, 2).wait(20).did(), "");
  EXPECT_TRUE(relay.relay().is_awaited());
  relay.breaks(1).breaks(2).breaks(kRunStream);
  EXPECT_FALSE(relay.relay().is_awaited());
}

// Else the run would take the controller for lost and begin the job again.
TEST(ControllerRelay, WhoComesAfterTheEndIsToldOfIt) {
  TestRelay relay;
  relay.job_runs();
  relay.hears(1, WorkerEnded{Rank(0), View(1), Node(0), "no such file", false, true}, 1)
      .breaks(1)
      .breaks(2)
      .did();
  EXPECT_TRUE(relay.relay().is_awaited()) << "the run has not heard of it";
  EXPECT_EQ(relay.run_attaches().agent(0, 7).did(), "run: end: no such file, 7: end: no such file");
  EXPECT_TRUE(relay.relay().is_awaited()) << "what is sent has to arrive";
  relay.breaks(kRunStream).breaks(7);
  EXPECT_FALSE(relay.relay().is_awaited());
}

// A short job is over before its run has found the controller.
TEST(ControllerRelay, ARunThatComesAfterTheEndHearsWhatHappenedFirst) {
  TestRelay relay;
  relay.job_runs();
  relay.hears(1, WorkerLogTail{Rank(0), "log", {"last words"}});
  relay.hears(1, WorkerEnded{Rank(0), View(1), Node(0), "no such file", false, true}, 1).did();
  EXPECT_EQ(relay.run_attaches().did(), "run: words, run: end: no such file");
}

}  // namespace
}  // namespace evermoe
