// A run written down by hand: 40 steps of a second, a durable save of step 10 that lengthens the
// next two steps by a quarter of a second each, and a worker that is lost in step 21.
#include "cli/experiment/profile_measurements.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

JobEnd hand_written(const nlohmann::json& restarted_from) {
  JobEnd end;
  for (int step = 1; step <= 40; ++step) {
    const double seconds = step == 1 ? 9 : step == 11 || step == 12 ? 1.25 : step == 22 ? 1.5 : 1;
    absl::StrAppend(&end.metrics, "{\"step\":", step,
                    ",\"loss\":5,\"seconds\":", step == 21 ? 6.5 : seconds,
                    ",\"window_steps\":4}\n");
  }
  end.summary = {{"status", "finished"}, {"seconds", 60.0}};
  end.summary["failures"] = {{{"step", 20},
                              {"restarted_from_step", restarted_from},
                              {"recomputed_steps", 4},
                              {"timeline",
                               {{"detect", 0.5},
                                {"view", 0.75},
                                {"load", 2.75},
                                {"catch_up", 4.75},
                                {"verify", nullptr},
                                {"resume", 6.0}}}}};
  end.seen.steps = {{5.0, 2}, {55.0, 40}};
  end.seen.checkpoints = {{14.0, 10, 12}, {56.0, 40, 40}};
  return end;
}

TEST(ProfileMeasurements, ReadOffTheRecord) {
  const auto run = measured_run(hand_written(nullptr), LostKind::kWorker);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->step_seconds, 1);
  EXPECT_EQ(run->begin_seconds, 3);  // two steps before step 2 was seen
  EXPECT_EQ(run->end_seconds, 5);
  EXPECT_EQ(run->window_steps, 4);
  EXPECT_EQ(run->save_seconds, std::vector<double>{0.5});
  EXPECT_EQ(run->save_lag_steps, std::vector<double>{2});
  ASSERT_EQ(run->failures.size(), 1u);
  const MeasuredFailure& failure = run->failures[0];
  EXPECT_EQ(failure.detect, 0.5);
  EXPECT_EQ(failure.view, 0.25);
  EXPECT_EQ(failure.load, 2);
  EXPECT_EQ(failure.again, 2);
  EXPECT_EQ(failure.steps_again, 4);
  EXPECT_EQ(failure.settle, 0.75);  // of the step that ends it, and half a second of the next one
}

// From disk: the steps since the checkpoint are training, and what it took to load is all of it.
TEST(ProfileMeasurements, ARestartFromDiskRunsNothingAgain) {
  JobEnd end = hand_written(10);
  end.summary["failures"][0]["timeline"]["resume"] = 14.0;  // with ten steps and the one under way
  const auto run = measured_run(end, LostKind::kWorker);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->failures.size(), 1u);
  EXPECT_EQ(run->failures[0].steps_again, 0);
  EXPECT_EQ(run->failures[0].load, 2);
  EXPECT_EQ(run->failures[0].settle, 0.75);
  EXPECT_EQ(run->step_seconds, 1);
}

TEST(ProfileMeasurements, AreMeansOverRuns) {
  const auto run = measured_run(hand_written(nullptr), LostKind::kWorker);
  ASSERT_TRUE(run.ok()) << run.status();
  MeasuredRun other = *run;
  other.step_seconds = 2;
  other.lost = LostKind::kNode;
  other.failures[0].view = 7;
  const MeasuredRun runs[] = {*run, other};
  const StrategyProfile profile = strategy_profile(StrategyKind::kSparse, runs);
  EXPECT_EQ(profile.step_seconds, 1.5);
  EXPECT_EQ(profile.window_steps, 4);
  EXPECT_EQ(profile.worker.step_again_seconds, 0.5);
  EXPECT_EQ(profile.worker.view_seconds, 0.25);
  EXPECT_EQ(profile.worker.failures, 1);
  EXPECT_EQ(profile.node.view_seconds, 7);
  EXPECT_EQ(profile.node.failures, 1);
}

// A move in step 30: one second for all, a quarter for the new view, half of one to load, and a
// step that is a quarter longer.
nlohmann::json move_of_step_30(const std::string& state) {
  nlohmann::json timeline = nlohmann::json::array();
  const std::pair<double, const char*> moments[] = {
      {20, "asked"},      {24, "processes warm"}, {30, "last commit"}, {31, "handed over"},
      {31.25, "planned"}, {31.75, "restored"},    {33, "next commit"}};
  for (const auto& [seconds, what] : moments)
    timeline.push_back({{"seconds", seconds}, {"what", what}});
  return {{"state", state},
          {"step", 30},
          {"bytes", 4e9},
          {"usual_step_seconds", 1.0},
          {"timeline", timeline}};
}

TEST(ProfileMeasurements, MovesByTheirPhases) {
  JobEnd end = hand_written(nullptr);
  end.summary["moves"] = {move_of_step_30("done"), move_of_step_30("called off")};
  // A move's own steps are no usual ones.
  end.metrics += "{\"step\":31,\"loss\":5,\"seconds\":3}\n";
  const auto run = measured_run(end, LostKind::kWorker);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->step_seconds, 1);
  ASSERT_EQ(run->moves.size(), 1u);
  const MeasuredRun runs[] = {*run};
  const StrategyProfile profile = strategy_profile(StrategyKind::kSparse, runs, runs);
  EXPECT_EQ(profile.move.hand_over_seconds, 1);
  EXPECT_EQ(profile.move.switch_seconds, 0.25);
  EXPECT_EQ(profile.move.load_seconds, 0.5);
  EXPECT_EQ(profile.move.settle_seconds, 0.25);
  EXPECT_EQ(profile.move.pause_seconds(), 2);
  EXPECT_EQ(profile.move.bytes, 4e9);
  EXPECT_EQ(profile.move.moves, 1);
  EXPECT_EQ(strategy_profile(StrategyKind::kSparse, runs).move.moves, 0);
}

// What no standby was warm for says nothing about standbys.
TEST(ProfileMeasurements, OnlyLossesThatAStandbyTookCountForStandbys) {
  JobEnd end = hand_written(nullptr);
  const auto failures = [&](bool standby) {
    end.summary["failures"][0]["standby"] = standby;
    return measured_run(end, LostKind::kStandby).value();
  };
  EXPECT_TRUE(failures(false).failures.empty());
  const MeasuredRun runs[] = {failures(true)};
  ASSERT_EQ(runs[0].failures.size(), 1u);
  const StrategyProfile profile = strategy_profile(StrategyKind::kSparse, runs, runs);
  EXPECT_EQ(profile.standby.view_seconds, 0.25);
  EXPECT_EQ(profile.standby.failures, 1);
  EXPECT_EQ(profile.worker.failures, 0);
}

TEST(ProfileMeasurements, AnUnfinishedRunSaysNothing) {
  EXPECT_FALSE(measured_run(JobEnd(), LostKind::kWorker).ok());
  JobEnd end = hand_written(nullptr);
  end.summary["status"] = "failed";
  EXPECT_FALSE(measured_run(end, LostKind::kWorker).ok());
}

}  // namespace
}  // namespace evermoe
