#include "cli/reports/progress_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <streambuf>
#include <string>
#include <vector>

namespace evermoe {
namespace {

using Kind = WorkerReport::Kind;
using ::testing::HasSubstr;
using ::testing::Not;

class HandClock : public Clock {
 public:
  absl::Duration now() override { return now_; }
  void sleep_until(absl::Duration deadline) override { now_ = std::max(now_, deadline); }
  absl::Duration thread_time() override { return absl::ZeroDuration(); }
  absl::Time wall_now() override { return absl::UnixEpoch(); }
  void pass(double seconds) { now_ += absl::Seconds(seconds); }

 private:
  absl::Duration now_ = absl::Seconds(500);
};

class Screen {
 public:
  explicit Screen(bool live, bool quiet = false)
      : view_(out_, clock_,
              {.live = live, .quiet = quiet, .columns = [] { return 100; }, .steps = Step(60)}) {}

  Screen& steps(int64_t first, int64_t last, double seconds_each) {
    for (int64_t step = first; step <= last; ++step) {
      clock_.pass(seconds_each);
      WorkerReport report{.kind = Kind::kStep, .step = Step(step)};
      report.loss = 5.5;
      report.tokens_per_second = 12345;
      report.load_imbalance = 1.3;
      view_.on_report(report);
    }
    return *this;
  }
  Screen& report(Kind kind, int64_t step, double validation_loss = -1) {
    WorkerReport report{.kind = kind, .step = Step(step), .text = "checkpoints/step-00000020"};
    report.validation_loss = validation_loss;
    view_.on_report(report);
    return *this;
  }
  Screen& say(const std::string& line) {
    view_.on_say(line);
    return *this;
  }
  std::string text() const { return out_.str(); }
  int lines() const {
    const std::string all = text();
    return static_cast<int>(std::count(all.begin(), all.end(), '\n'));
  }
  ProgressView& view() { return view_; }

 private:
  std::ostringstream out_;
  HandClock clock_;
  ProgressView view_;
};

TEST(ProgressView, PlainLinesComeAtASensibleRate) {
  Screen screen(/*live=*/false);
  screen.steps(1, 60, 0.5);
  EXPECT_EQ(screen.lines(), 16) << "first, last, and every two seconds:\n" << screen.text();
  EXPECT_THAT(screen.text(),
              HasSubstr("[    0.5 s] step 1/60  loss 5.5000  12.3k tokens/s  imbalance 1.30\n"));
  EXPECT_THAT(screen.text(), HasSubstr("step 5/60  loss 5.5000  12.3k tokens/s  left 0:28"));
  EXPECT_THAT(screen.text(), HasSubstr("step 60/60"));
  EXPECT_THAT(screen.text(), Not(HasSubstr("\x1b")));
}

TEST(ProgressView, ShowsHowTheJobIsProtected) {
  Screen screen(/*live=*/false);
  WorkerReport report{.kind = Kind::kStep, .step = Step(1)};
  report.protection = ProtectionState{.window_steps = 4};
  screen.view().on_report(report);
  EXPECT_THAT(screen.text(), HasSubstr("not protected yet"));
  report.step = Step(60);
  report.protection =
      ProtectionState{.window_steps = 4, .complete_window = Step(52), .log_bytes = 3 << 19};
  screen.view().on_report(report);
  EXPECT_THAT(screen.text(), HasSubstr("protected from 52 in windows of 4, log 1.5 MiB"));
}

TEST(ProgressView, TheLiveLineIsDrawnOverItself) {
  Screen screen(/*live=*/true);
  screen.steps(1, 10, 0.2);
  EXPECT_EQ(screen.lines(), 0);
  EXPECT_THAT(screen.text(), HasSubstr("\r\x1b[Kstep 10/60"));
  screen.report(Kind::kPublished, 10);
  EXPECT_THAT(screen.text(),
              HasSubstr("\r\x1b[K[    2.0 s] saved the checkpoint of step 10\n\r\x1b[Kstep 10/60"));
  screen.view().close();
  EXPECT_THAT(screen.text(), testing::EndsWith("saved 10\r\x1b[K"));
}

TEST(ProgressView, ALiveLineNeverWraps) {
  Screen screen(/*live=*/true);
  screen.report(Kind::kPublished, 1).steps(1, 30, 100000);
  std::istringstream pieces(screen.text());
  for (std::string piece; std::getline(pieces, piece, '\r');)
    EXPECT_LE(piece.size(), 99 + 3) << piece;
}

TEST(ProgressView, WhatHappensIsAStory) {
  Screen screen(/*live=*/false);
  screen.steps(1, 1, 1)
      .report(Kind::kEvaluated, 20, 2.5)
      .say("worker 1.0 at step 25: killed by signal 9 (Killed)");
  screen.report(Kind::kReady, 20);
  EXPECT_EQ(screen.text(),
            "[    1.0 s] step 1/60  loss 5.5000  12.3k tokens/s  imbalance 1.30\n"
            "[    1.0 s] evaluation at step 20: validation loss 2.5000\n"
            "[    1.0 s] worker 1.0 at step 25: killed by signal 9 (Killed)\n"
            "[    1.0 s] continues from step 20: checkpoints/step-00000020\n");
}

TEST(ProgressView, APauseDoesNotSpoilThePaceOfTheNextAttempt) {
  Screen screen(/*live=*/false);
  screen.steps(1, 25, 1).report(Kind::kReady, 20);
  screen.steps(21, 21, 1000).steps(22, 30, 1);
  EXPECT_THAT(screen.text(), HasSubstr("left 0:"));
  EXPECT_THAT(screen.text(), Not(HasSubstr("left 1:0")));
}

TEST(ProgressView, QuietShowsNothing) {
  Screen screen(/*live=*/true, /*quiet=*/true);
  screen.steps(1, 60, 1).say("words").report(Kind::kPublished, 60);
  screen.view().on_log("0.0", "log", {"line"});
  screen.view().close();
  EXPECT_EQ(screen.text(), "");
}

// What is written to it, as it is: standard error is not buffered.
class Writes : public std::streambuf {
 public:
  std::vector<std::string> all;

 private:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    all.emplace_back(text, static_cast<size_t>(size));
    return size;
  }
};

TEST(ProgressView, ALineIsWrittenAtOnce) {
  Writes writes;
  std::ostream out(&writes);
  HandClock clock;
  ProgressView view(out, clock, {.live = false, .columns = [] { return 100; }, .steps = Step(60)});
  view.on_say("view 1: the job begins");
  EXPECT_THAT(writes.all, testing::ElementsAre("[    0.0 s] view 1: the job begins\n"))
      << "another process may write between two";
}

}  // namespace
}  // namespace evermoe
