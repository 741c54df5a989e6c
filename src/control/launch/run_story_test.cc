#include "control/launch/run_story.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST_F(Story, ProcessesAreWrittenByTheNamesOfTheirRoles) {
  story_.hear(RoleProcess{Rank(1), 11});
  story_.hear(RoleProcess{Rank(2), 12});
  story_.hear(RoleProcess{Rank(1), 0});
  story_.write_processes({{"controller", 5}});
  EXPECT_THAT(story_.worker("1.0"), Optional(12));
  EXPECT_EQ(story_.worker("0.1"), std::nullopt);
  EXPECT_EQ(TestFolder::read(folder_.path("workers.json")), "{\"1.0\":12}\n");
  EXPECT_EQ(TestFolder::read(folder_.path("control.json")), "{\"controller\":5}\n");
}

TEST_F(Story, AFileThatCannotBeWrittenIsSaidOnce) {
  options_.out = folder_.path("no/such/folder");
  for (int i = 0; i < 2; ++i) story_.write_processes({});
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
