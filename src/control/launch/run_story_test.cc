#include "control/launch/run_story.h"
#include "control/launch/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/hosting/event_json.h"
#include "control/hosting/failure_json.h"
#include "data/folder_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

using Kind = WorkerReport::Kind;

class Story : public testing::Test, private RunObserver {
 protected:
  static ProtectedRunOptions options_in(const std::string& out) {
    ProtectedRunOptions options;
    options.out = out;
    options.controller.lanes = {2, 2};
    options.steps = Step(20);
    return options;
  }
  bool reports(Kind kind, int64_t step, bool drained = false) {
    WorkerReport report{.kind = kind, .step = Step(step)};
    report.drained = drained;
    return story_.hear(absl::ZeroDuration(), report);
  }

  RunObserver& observer() { return *this; }

  TestFolder folder_;
  ProtectedRunOptions options_ = options_in(folder_.root());
  std::vector<std::string> said_;
  RunStory story_{real_files(), options_, *this, absl::Seconds(100)};

 private:
  void on_say(const std::string& line) override { said_.push_back(line); }
  void on_report(const WorkerReport&) override {}
  void on_log(const std::string& role, const std::string&,
              const std::vector<std::string>&) override {
    said_.push_back("the log of " + role);
  }
};

TEST_F(Story, AStepIsNewOnce) {
  EXPECT_TRUE(reports(Kind::kStep, 7));
  EXPECT_FALSE(reports(Kind::kStep, 7));
  EXPECT_FALSE(reports(Kind::kStep, 5)) << "after a restart";
  EXPECT_FALSE(reports(Kind::kPublished, 9));
  EXPECT_TRUE(reports(Kind::kStep, 8));
  EXPECT_EQ(story_.outcome(1, "").steps, Step(8));
}

TEST_F(Story, TheControllersWordBecomesTheOutcome) {
  EXPECT_EQ(story_.outcome({.ok = true}).status, RunStatus::kFinished);
  EXPECT_EQ(story_.outcome({.ok = true}).reason, "all 20 steps are done");
  reports(Kind::kFinished, 8, /*drained=*/true);
  EXPECT_EQ(story_.outcome({.ok = true}).status, RunStatus::kDrained);
  EXPECT_EQ(story_.outcome({.ok = true}).exit_code, 0);
  const RunOutcome bad = story_.outcome({.ok = false, .bad_input = true, .reason = "no such key"});
  EXPECT_EQ(bad.status, RunStatus::kFailed);
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_EQ(bad.reason, "no such key");
  EXPECT_EQ(story_.outcome({.ok = false, .reason = "diverged"}).exit_code, 1);
}

TEST_F(Story, WhoTrainedFromWhenOn) {
  const auto history = [this] {
    std::vector<std::string> lines;
    for (const LanesChanged& change : story_.outcome(1, "").membership)
      lines.push_back(to_text(change));
    return lines;
  };
  story_.hear(LanesChanged{Step(-1), {3, 3}, 6, "the job begins"});
  EXPECT_THAT(history(), testing::IsEmpty()) << "from where is not known yet";
  reports(Kind::kReady, 0);
  story_.hear(LanesChanged{Step(8), {2, 3}, 5, "node 1 is lost"});
  story_.hear(LanesChanged{Step(8), {2, 3}, 5, ""});  // by the next controller
  story_.hear(LanesChanged{Step(12), {3, 3}, 6, "node 1 has come"});
  EXPECT_THAT(history(), ElementsAre("3 3 from step 0 on, 6 nodes: the job begins",
                                     "2 3 from step 8 on, 5 nodes: node 1 is lost",
                                     "3 3 from step 12 on, 6 nodes: node 1 has come"));
  // All go back to a checkpoint, on the lanes that there are.
  story_.hear(LanesChanged{Step(-1), {1, 3}, 4, "node 2 is lost"});
  reports(Kind::kReady, 10);
  EXPECT_THAT(history().back(), "1 3 from step 10 on, 4 nodes: node 2 is lost");
  EXPECT_EQ(history().size(), 3u);
  // To one from before they were fewer.
  story_.hear(LanesChanged{Step(-1), {1, 3}, 3, "node 4 is lost"});
  reports(Kind::kReady, 5);
  EXPECT_THAT(history(), ElementsAre("3 3 from step 0 on, 6 nodes: the job begins",
                                     "1 3 from step 5 on, 3 nodes: node 4 is lost"));
  // And to one from after that: they are the same.
  story_.hear(LanesChanged{Step(-1), {1, 3}, 2, "node 5 is lost"});
  reports(Kind::kReady, 10);
  EXPECT_EQ(history().size(), 2u);
}

RecoveryNote recovery_at(int64_t step) {
  RecoveryNote note;
  note.failed = absl::Seconds(110);
  note.record.incident = 3;
  note.record.roles = {"1.0"};
  note.record.causes = {"1.0: killed by signal 9 (Killed)"};
  note.record.sources = {"1.0: window 12 from 0.1"};
  note.record.rolled_back_stages = {1};
  note.record.recomputed_steps = 3;
  note.record.restarts = 1;
  note.record.step = Step(step);
  note.record.noticed = absl::Seconds(110.5);
  note.record.resumed = absl::Seconds(112);
  return note;
}

// The next controller does not know that the former one sent all back; where they went on from is
// known all the same.
TEST_F(Story, ARestartDuringWhichTheControllerEndedHasItsStep) {
  reports(Kind::kReady, 0);  // at the beginning
  RecoveryNote note = recovery_at(11);
  note.record.restarted_all = true;
  note.record.resumed = absl::InfiniteDuration();
  story_.hear(0, note);
  EXPECT_EQ(story_.outcome(1, "").failures[0].restarted_from_step, std::nullopt);
  story_.on_controller_end(absl::Seconds(111), "killed by signal 9 (Killed)");
  reports(Kind::kReady, 8);
  EXPECT_EQ(story_.outcome(1, "").failures[0].restarted_from_step, Step(8));
  EXPECT_EQ(failure_json(story_.outcome(1, "").failures[0])["restarted_from_step"], 8);
  story_.hear(0, note);
  EXPECT_EQ(story_.outcome(1, "").failures[0].restarted_from_step, Step(8)) << "a late note";
}

// The hosts of one job, one after the other, and of another job in the same folder.
class Hosts : public Story {
 protected:
  RunStory next_host(const std::string& job = "j") {
    const auto term = take_next_term(real_files(), folder_.root(), new_term_owner(), job,
                                     [&](const std::string& before) { return before == job; });
    EXPECT_TRUE(term.ok()) << term.status();
    options_.term = term.value_or(FolderTerm());
    return RunStory(real_files(), options_, observer(), absl::Seconds(100));
  }
};

TEST_F(Hosts, TheNextOneKnowsWhatTheFormerHasSeen) {
  RunStory first = next_host();
  first.on_controller_end(absl::Seconds(120), "killed by signal 11");
  first.hear(0, recovery_at(7));
  RunStory second = next_host();
  second.hear(1, recovery_at(17));
  const RunOutcome outcome = second.outcome({.ok = true});
  ASSERT_EQ(outcome.failures.size(), 3u);
  EXPECT_EQ(failure_json(outcome.failures[0]).dump(),
            failure_json(first.outcome(1, "").failures[0]).dump());
  EXPECT_EQ(outcome.failures[0].recovery->resume, 2.0);
  EXPECT_EQ(outcome.failures[0].incident, 3);
  EXPECT_THAT(outcome.failures[1].roles, ElementsAre("controller"));
  EXPECT_EQ(outcome.failures[2].step, Step(17));
  EXPECT_EQ(outcome.restarts, 2);
  EXPECT_EQ(next_host().outcome(1, "").failures.size(), 3u) << "of all hosts before it";
}

TEST_F(Hosts, TheNextOneKnowsWhoTrainedFromWhenOn) {
  RunStory first = next_host();
  first.hear(LanesChanged{Step(8), {2, 1}, 3, "node 1 is lost"});
  RunStory second = next_host();
  second.hear(LanesChanged{Step(8), {2, 1}, 3, ""});  // as a controller tells that takes over
  second.hear(LanesChanged{Step(12), {2, 2}, 4, "node 1 has come"});
  const auto history = second.outcome(1, "").membership;
  ASSERT_EQ(history.size(), 2u);
  EXPECT_EQ(to_text(history[0]), "2 1 from step 8 on, 3 nodes: node 1 is lost");
}

TEST_F(Hosts, TheNextOneKnowsWhatMovedAndWhatWasSlow) {
  RunStory first = next_host();
  MoveRecord move = {.roles = {"1.0", "1.1"}, .from = {Node(0), Node(0)}, .to = {Node(2), Node(1)}};
  move.cause = "asked for";
  move.state = MoveRecord::State::kDone;
  move.step = Step(12);
  move.bytes = 77;
  move.asked = absl::Seconds(101);
  move.stopped = absl::Seconds(103);
  move.resumed = absl::Seconds(105);
  move.usual_step = absl::Seconds(0.5);
  first.hear(0, MoveNote{0, move});
  MoveRecord under_way = move;
  under_way.state = MoveRecord::State::kSwitching;
  first.hear(0, MoveNote{1, under_way});
  first.hear(StragglerFound{.rank = Rank(1), .node = Node(0), .factor = 1.2, .step = Step(8)});
  first.hear(SlowLinkFound{.from = Node(1), .to = Node(2), .factor = 3, .step = Step(9)});

  RunStory second = next_host();
  second.hear(SlowLinkFound{.from = Node(1), .to = Node(2), .step = Step(11), .is_over = true});
  const RunOutcome known = next_host().outcome(1, "");
  ASSERT_EQ(known.role_moves.size(), 1u) << "the other one was not over";
  EXPECT_EQ(move_json(known.role_moves[0]), move_json(first.outcome(1, "").role_moves[0]));
  ASSERT_EQ(known.stragglers.size(), 1u);
  EXPECT_EQ(straggler_json(known.stragglers[0]).dump(),
            R"({"role":"0.1","node":0,"factor":1.2,"step":8,"until_step":null})");
  ASSERT_EQ(known.slow_links.size(), 1u);
  EXPECT_EQ(slow_link_json(known.slow_links[0]).dump(),
            R"({"from":1,"to":2,"factor":3.0,"step":9,"until_step":11})");

  const std::string good = TestFolder::read(folder_.path("history.json"));
  const std::pair<std::string, std::string> changes[] = {
      {"\"done\"", "\"gone\""},
      {"\"next commit\"", "\"later\""},
      {"\"1.1\"\n", "\"1.1\", \"0.1\"\n"},
      {"\"until_step\": null", "\"until\": 1"},
      {"\"until_step\": 11", "\"until_step\": -2"}};
  for (const auto& [from, to] : changes) {
    ASSERT_NE(good.find(from), std::string::npos) << from << " in " << good;
    std::string bad = good;
    folder_.write("history.json", bad.replace(bad.find(from), from.size(), to));
    EXPECT_TRUE(next_host().outcome(1, "").role_moves.empty()) << to;
  }
}

TEST_F(Hosts, WhoseControllerFoundItsPlaceTakenHaveSeenNoFailure) {
  next_host().on_controller_end(absl::Seconds(120), "exit code 1: Address already in use");
  EXPECT_TRUE(next_host().outcome(1, "").failures.empty());
}

TEST_F(Hosts, OneThatIsNoneAnyMoreHandsNothingOn) {
  const ProtectedRunOptions options_of_first = [&] {
    (void)next_host();
    return options_;
  }();
  RunStory first(real_files(), options_of_first, observer(), absl::Seconds(100));
  next_host().hear(1, recovery_at(17));
  first.hear(0, recovery_at(7));
  const RunOutcome third = next_host().outcome(1, "");
  ASSERT_EQ(third.failures.size(), 1u);
  EXPECT_EQ(third.failures[0].step, Step(17));
}

TEST_F(Hosts, OfAnotherJobKnowNothing) {
  next_host().hear(0, recovery_at(7));
  EXPECT_TRUE(next_host("k").outcome(1, "").failures.empty());
}

TEST_F(Hosts, WhatCannotBeReadIsNotThere) {
  next_host().hear(0, recovery_at(7));
  const std::string good = TestFolder::read(folder_.path("history.json"));
  const std::pair<std::string, std::string> changes[] = {
      {"\"version\": 1", "\"version\": 2"},
      {"\"job\": \"j\"", "\"job\": 3"},
      {"\"restarts\": 1", "\"restarts\": 1e99"},
      {"\"incident\": 3", "\"incident\": 99999999999999999999"},
      {"\"step\": 7", "\"step\": 7.5"},
      {"\"restarted_all\": false", "\"restarted_all\": 0"},
      {"\"resume\": 2.0", "\"resume\": \"2\""},
      {"\"what\"", "\"who\""},
      {"\"1.0\"", "1.0"}};
  for (const auto& [from, to] : changes) {
    ASSERT_NE(good.find(from), std::string::npos) << from << " in " << good;
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    folder_.write("history.json", bad);
    EXPECT_TRUE(next_host().outcome(1, "").failures.empty()) << to;
  }
  for (const std::string& bad :
       {std::string(), good.substr(0, good.size() / 2), std::string(1 << 20, '[')}) {
    folder_.write("history.json", bad);
    EXPECT_TRUE(next_host().outcome(1, "").failures.empty()) << bad.substr(0, 20);
  }
  folder_.write("history.json", good);
  EXPECT_EQ(next_host().outcome(1, "").failures.size(), 1u);
}

TEST_F(Hosts, HandOnTheNewestOfManyFailures) {
  (void)next_host();
  JobHistory many;
  for (size_t i = 0; i < kHandedOnMax + 5; ++i) {
    many.failures.emplace_back();
    many.failures.back().step = Step(static_cast<int64_t>(i));
  }
  ASSERT_TRUE(write_history(real_files(), folder_.root(), "j", many).ok());
  const RunOutcome second = next_host().outcome(1, "");
  ASSERT_EQ(second.failures.size(), kHandedOnMax);
  EXPECT_EQ(second.failures.front().step, Step(5));
}

TEST_F(Story, ProcessesAreWrittenByTheNamesOfTheirRoles) {
  story_.hear(RoleProcess{Rank(1), 11});
  story_.hear(RoleProcess{Rank(2), 12});
  story_.hear(RoleProcess{Rank(1), 0});
  story_.write_processes({{"controller", 5}}, "here:1");
  EXPECT_THAT(story_.worker("1.0"), Optional(12));
  EXPECT_EQ(story_.worker("0.1"), std::nullopt);
  EXPECT_EQ(TestFolder::read(folder_.path("workers.json")), "{\"1.0\":12}\n");
  EXPECT_EQ(TestFolder::read(folder_.path("control.json")), "{\"controller\":5}\n");
  EXPECT_EQ(TestFolder::read(folder_.path("controller.json")), "{\"address\":\"here:1\"}\n");
  story_.write_processes({}, "");
  EXPECT_FALSE(real_files().exists(folder_.path("controller.json")));
}

TEST_F(Story, AFileThatCannotBeWrittenIsSaidOnce) {
  options_.out = folder_.path("no/such/folder");
  for (int i = 0; i < 2; ++i) story_.write_processes({}, "");
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_THAT(said_[0], HasSubstr("warning: "));
}

// A controller of another job cannot know our roles.
TEST_F(Story, ARankThatTheJobDoesNotHaveGetsAName) {
  story_.hear(WorkerLogTail{Rank(3), "log", {}});
  story_.hear(WorkerLogTail{Rank(9), "log", {}});
  EXPECT_THAT(said_, ElementsAre("the log of 1.1", "the log of rank 9"));
}

}  // namespace
}  // namespace evermoe
