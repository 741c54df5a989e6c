#include "control/controller/stragglers/straggler_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace evermoe {
namespace {

std::mt19937 random(1);

using testing::IsEmpty;
using testing::SizeIs;

// A job whose roles take as long for a step as a test says.
class WatchedJob {
 public:
  explicit WatchedJob(std::vector<int> lanes, StragglerOptions options = {})
      : topology_(lanes, std::ssize(lanes)), watch_(topology_, options) {}

  std::function<double(Rank, int64_t step)> seconds = [](Rank, int64_t) { return 0.1; };
  absl::Duration step_time = absl::Milliseconds(200);
  std::function<double(Rank, int64_t step)> work = [](Rank, int64_t) { return 1.0; };
  std::function<bool(Rank, int64_t step)> is_told = [](Rank, int64_t) { return true; };

  // What is found within so many steps.
  std::vector<StragglerWatch::Finding> run(int64_t steps) {
    std::vector<StragglerWatch::Finding> all;
    for (int64_t i = 0; i < steps; ++i) {
      ++step_;
      for (int32_t r = 0; r < topology_.world_size(); ++r) {
        if (!is_told(Rank(r), step_)) continue;
        const absl::Duration computing = absl::Seconds(seconds(Rank(r), step_));
        watch_.note(Rank(r), since_, {{Step(step_), computing, work(Rank(r), step_)}});
      }
      for (const auto& finding : watch_.look(step_time)) all.push_back(finding);
    }
    return all;
  }
  void go_back(int64_t steps) { step_ -= steps; }
  void replace_all() { since_ = View(since_.value + 1); }
  const StragglerWatch& watch() const { return watch_; }

 private:
  Topology topology_;
  StragglerWatch watch_;
  View since_{1};
  int64_t step_ = 0;
};

TEST(StragglerWatchTest, ALaneThatIsSlowerThanTheOthersIsNamed) {
  WatchedJob job({2, 2});
  ASSERT_THAT(job.run(40), IsEmpty());
  job.seconds = [](Rank rank, int64_t) { return rank == Rank(2) ? 0.12 : 0.1; };
  const auto found = job.run(30);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rank, Rank(2));
  EXPECT_TRUE(found[0].is_slow);
  EXPECT_NEAR(found[0].factor, 1.2, 1e-9);
  EXPECT_LE(found[0].step, Step(70));
  const auto slowness = job.watch().slowness(Rank(2));
  ASSERT_TRUE(slowness.has_value());
  EXPECT_NEAR(absl::ToDoubleSeconds(slowness->excess), 0.02, 1e-9);
  EXPECT_FALSE(job.watch().slowness(Rank(3)).has_value());
}

TEST(StragglerWatchTest, OneThatIsAlittleSlowerIsNot) {
  WatchedJob job({4});
  job.seconds = [](Rank rank, int64_t) { return rank == Rank(1) ? 0.114 : 0.1; };
  EXPECT_THAT(job.run(200), IsEmpty());
}

TEST(StragglerWatchTest, AStragglerIsOneUntilItIsNearlyAsFastAsOthers) {
  double factor = 1.2;
  WatchedJob job({3});
  job.seconds = [&](Rank rank, int64_t) { return rank == Rank(0) ? 0.1 * factor : 0.1; };
  ASSERT_THAT(job.run(30), SizeIs(1));
  factor = 1.1;  // below the limit, and above half of it
  EXPECT_THAT(job.run(100), IsEmpty());
  factor = 1.0;
  const auto found = job.run(30);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_FALSE(found[0].is_slow);
}

TEST(StragglerWatchTest, WhereNextToNothingIsComputedNobodyIsSlow) {
  WatchedJob job({2});
  job.seconds = [](Rank rank, int64_t) { return rank == Rank(0) ? 3e-6 : 2e-6; };
  EXPECT_THAT(job.run(100), IsEmpty());
}

TEST(StragglerWatchTest, StepsThatAreSlowForAllNameNobody) {
  WatchedJob job({2, 2});
  job.seconds = [](Rank, int64_t step) { return step % 50 < 25 ? 0.1 : 0.3; };
  EXPECT_THAT(job.run(300), IsEmpty());
}

TEST(StragglerWatchTest, FewSlowStepsNameNobody) {
  WatchedJob job({2});
  job.seconds = [](Rank rank, int64_t step) {
    return rank == Rank(0) && step % 25 < 6 ? 1.0 : 0.1;
  };
  EXPECT_THAT(job.run(300), IsEmpty());
}

TEST(StragglerWatchTest, ALaneWithMoreToDoIsNone) {
  WatchedJob job({2});
  job.seconds = [](Rank rank, int64_t) { return rank == Rank(0) ? 0.15 : 0.1; };
  job.work = [](Rank rank, int64_t) { return rank == Rank(0) ? 3.0 : 2.0; };
  EXPECT_THAT(job.run(100), IsEmpty());
}

// Where work costs next to nothing, and there is more of it on one lane, the others are not slow.
TEST(StragglerWatchTest, ALaneWithLessToDoIsNotSlowForTakingAsLong) {
  WatchedJob job({2});
  job.work = [](Rank rank, int64_t) { return rank == Rank(0) ? 3.0 : 2.0; };
  EXPECT_THAT(job.run(100), IsEmpty());
}

// The work varies from step to step, and the times follow it.
TEST(StragglerWatchTest, ASlowLaneWithLessToDoIsNamed) {
  WatchedJob job({2});
  std::mt19937 draws(7);
  std::normal_distribution<double> noise(0, 0.05);
  std::vector<double> works(2);
  job.work = [&](Rank rank, int64_t) { return works[static_cast<size_t>(rank.value)]; };
  job.seconds = [&](Rank rank, int64_t step) {
    double& work = works[static_cast<size_t>(rank.value)];
    work = (rank == Rank(0) ? 0.92 : 1) * std::exp(noise(draws));
    const double slow = rank == Rank(0) && step > 100 ? 1.2 : 1;
    return 0.1 * work * slow * std::exp(0.3 * noise(draws));
  };
  EXPECT_THAT(job.run(100), IsEmpty());
  EXPECT_THAT(job.run(30), SizeIs(1));
}

TEST(WorkDependenceTest, TimesThatFollowTheWorkSayHowFar) {
  for (const double power : {0.0, 0.5, 1.0}) {
    std::normal_distribution<double> noise(0, 0.05);
    std::vector<std::vector<WorkAndTime>> roles(2);
    for (int step = 0; step < 100; ++step) {
      for (size_t role = 0; role < 2; ++role) {
        const double work = noise(random);
        roles[role].push_back({work, power * work + 0.2 * noise(random) + (role == 0 ? 0.3 : 0)});
      }
    }
    const WorkDependence found = work_dependence(roles);
    EXPECT_LE(found.least, power);
    EXPECT_GE(found.most, power);
    EXPECT_LT(found.most - found.least, 0.3);
  }
}

TEST(WorkDependenceTest, OfEqualWorkNothingIsKnown) {
  const WorkDependence found = work_dependence(std::vector<std::vector<WorkAndTime>>{{{0.1, 0.5}}});
  EXPECT_EQ(found.least, 0);
  EXPECT_EQ(found.most, 1);
}

TEST(StragglerWatchTest, StagesDoNotCompareWithEachOther) {
  WatchedJob job({2, 2});
  job.seconds = [](Rank rank, int64_t) { return rank.value < 2 ? 0.1 : 0.5; };
  EXPECT_THAT(job.run(100), IsEmpty());
}

TEST(StragglerWatchTest, ALoneLaneIsComparedWithItself) {
  WatchedJob job({1, 1});
  job.seconds = [](Rank rank, int64_t step) {
    return (rank == Rank(0) ? 0.1 : 0.3) * (rank == Rank(1) && step > 80 ? 1.2 : 1);
  };
  ASSERT_THAT(job.run(80), IsEmpty());
  const auto found = job.run(30);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rank, Rank(1));
  EXPECT_THAT(job.run(400), IsEmpty()) << "it does not become usual";
}

TEST(StragglerWatchTest, LoneLanesThatAllBecomeSlowerNameNobody) {
  WatchedJob job({1, 1, 1});
  job.seconds = [](Rank, int64_t step) { return step > 80 ? 0.2 : 0.1; };
  EXPECT_THAT(job.run(300), IsEmpty());
}

TEST(StragglerWatchTest, WhoIsAloneIsComparedWithNobody) {
  WatchedJob job({1});
  job.seconds = [](Rank, int64_t step) { return step > 80 ? 0.2 : 0.1; };
  EXPECT_THAT(job.run(300), IsEmpty());
}

TEST(StragglerWatchTest, OnlyStepsThatAllHaveToldOfCount) {
  WatchedJob job({2});
  job.seconds = [](Rank rank, int64_t step) {
    return step % 2 == 0 ? 0.1 : rank == Rank(0) ? 9.0 : 0.1;
  };
  job.is_told = [](Rank rank, int64_t step) { return rank == Rank(0) || step % 2 == 0; };
  EXPECT_THAT(job.run(200), IsEmpty());
}

TEST(StragglerWatchTest, WhoIsGoneDoesNotKeepOthersFromBeingCompared) {
  WatchedJob job({3});
  job.is_told = [](Rank rank, int64_t step) { return rank != Rank(2) || step < 30; };
  job.seconds = [](Rank rank, int64_t) { return rank == Rank(0) ? 0.2 : 0.1; };
  EXPECT_THAT(job.run(29), SizeIs(1));
  WatchedJob other({3});
  other.is_told = [](Rank rank, int64_t step) { return rank != Rank(2) || step < 30; };
  other.seconds = [](Rank rank, int64_t step) { return rank == Rank(0) && step > 30 ? 0.2 : 0.1; };
  EXPECT_THAT(other.run(120), SizeIs(1));
}

// It is a lone lane then, slow, and nobody knows what is usual for it.
TEST(StragglerWatchTest, ASlowLaneWhoseNeighbourIsSilentMakesNobodyElseSlow) {
  WatchedJob job({1, 2});
  job.seconds = [](Rank rank, int64_t) { return rank == Rank(1) ? 0.03 : 0.01; };
  ASSERT_THAT(job.run(60), SizeIs(1));
  job.is_told = [](Rank rank, int64_t) { return rank != Rank(2); };
  EXPECT_THAT(job.run(200), IsEmpty());
}

TEST(StragglerWatchTest, AnotherProcessBeginsAnew) {
  WatchedJob job({2});
  job.seconds = [](Rank rank, int64_t) { return rank == Rank(0) ? 0.2 : 0.1; };
  ASSERT_THAT(job.run(25), SizeIs(1));
  job.replace_all();
  job.seconds = [](Rank, int64_t) { return 0.1; };
  EXPECT_THAT(job.run(100), IsEmpty());
  EXPECT_FALSE(job.watch().slowness(Rank(0)).has_value());
}

TEST(StragglerWatchTest, StepsThatAreRunAgainBeginAnew) {
  WatchedJob job({2});
  ASSERT_THAT(job.run(15), IsEmpty());
  job.go_back(10);
  job.seconds = [](Rank rank, int64_t) { return rank == Rank(0) ? 0.2 : 0.1; };
  EXPECT_THAT(job.run(19), IsEmpty()) << "twenty steps are needed";
  EXPECT_THAT(job.run(1), SizeIs(1));
}

// The times of a step spread by so much.
struct NoisyJob : WatchedJob {
  explicit NoisyJob(double spread, double factor = 1) : WatchedJob({2, 2}), noise(0, spread) {
    seconds = [this, factor](Rank rank, int64_t step) {
      return 0.1 * noise(random) * (rank == Rank(3) && step > 60 ? factor : 1);
    };
  }
  std::lognormal_distribution<double> noise;
};

TEST(StragglerWatchTest, NoiseNamesNobody) {
  for (const double spread : {0.02, 0.05, 0.1, 0.2, 0.5})
    EXPECT_THAT(NoisyJob(spread).run(10000), IsEmpty()) << spread;
}

// Of 50 jobs whose slow role is one by `factor`, how many name it in so many steps.
int64_t jobs_that_name_it(double spread, double factor, int64_t steps) {
  int64_t found = 0;
  for (int times = 0; times < 50; ++times) {
    NoisyJob job(spread, factor);
    EXPECT_THAT(job.run(60), IsEmpty());
    found += std::ssize(job.run(steps)) == 1 ? 1 : 0;
  }
  return found;
}

TEST(StragglerWatchTest, OneThatIsSlowerByAFifthIsNamedWithin30Steps) {
  EXPECT_GE(jobs_that_name_it(0.03, 1.2, 30), 49);
}

TEST(StragglerWatchTest, MoreNoiseTakesMoreSteps) {
  EXPECT_GE(jobs_that_name_it(0.15, 1.3, 120), 48);
}

}  // namespace
}  // namespace evermoe
