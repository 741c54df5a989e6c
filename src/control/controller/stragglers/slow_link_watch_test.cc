#include "control/controller/stragglers/slow_link_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "control/controller/controlled_job_testing.h"

namespace evermoe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// All links between so many nodes are measured once in a step, which takes half a second.
struct WatchedLinks {
  explicit WatchedLinks(int count) : nodes(count) {}

  // What the watch finds in so many steps.
  std::vector<SlowLinkWatch::Finding> run(int steps) {
    std::vector<SlowLinkWatch::Finding> found;
    for (; steps > 0; --steps) {
      ++step;
      now += absl::Seconds(0.5);
      for (int from = 0; from < nodes; ++from) {
        for (int to = 0; to < nodes; ++to) {
          const NodeLink link{Node(from), Node(to)};
          if (from != to && is_used(link)) watch.note(now, link, Step(step), measured(link));
        }
      }
      for (const auto& one : watch.look(now, slow_nodes)) found.push_back(one);
    }
    return found;
  }
  LinkTime measured(NodeLink link) {
    LinkTime time = times(link);
    // Others use the processors and the line, too, mostly.
    const auto late = [&] { return absl::Milliseconds(lateness(draws)); };
    time.round_trip += late();
    time.bulk += late();
    return time;
  }
  static LinkTime usual() {
    return {Rank(1), absl::Milliseconds(0.2), absl::Milliseconds(3), 100, 5};
  }

  const int nodes;
  std::function<LinkTime(NodeLink)> times = [](NodeLink) { return usual(); };
  std::function<bool(NodeLink)> is_used = [](NodeLink) { return true; };
  std::set<Node> slow_nodes;
  std::mt19937_64 draws{1};
  std::exponential_distribution<double> lateness{1 / 0.2};  // milliseconds
  int64_t step = 0;
  absl::Duration now;
  SlowLinkWatch watch{StragglerOptions{}};
};

// From step 150 on messages there take so many times as long.
std::function<LinkTime(NodeLink)> slow_from_150(const WatchedLinks& job, NodeLink slow,
                                                double factor) {
  return [&job, slow, factor](NodeLink link) {
    LinkTime time = WatchedLinks::usual();
    if (link != slow || job.step <= 150) return time;
    time.round_trip *= factor;
    time.bulk *= factor;
    return time;
  };
}

constexpr NodeLink kTestedLink{Node(0), Node(2)};

TEST(SlowLinkWatchTest, OneThatIsATenthAsFastIsNamedAloneWithin50Steps) {
  WatchedLinks job(4);
  job.times = slow_from_150(job, kTestedLink, 10);
  ASSERT_THAT(job.run(150), IsEmpty());
  const auto found = job.run(50);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].link, kTestedLink);
  EXPECT_TRUE(found[0].is_slow);
  EXPECT_NEAR(found[0].factor, 10, 1.5);
  EXPECT_GT(found[0].step, Step(170));
  EXPECT_EQ(job.watch.known(), 12);
  EXPECT_EQ(job.watch.slow().count(kTestedLink), 1u);
  EXPECT_THAT(job.run(400), IsEmpty()) << "it does not become usual";
}

TEST(SlowLinkWatchTest, OneThatIsFastAgainIsSlowNoMore) {
  WatchedLinks job(2);
  job.times = slow_from_150(job, {Node(0), Node(1)}, 10);
  ASSERT_THAT(job.run(200), SizeIs(1));
  job.times = [](NodeLink) { return WatchedLinks::usual(); };
  const auto found = job.run(40);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_FALSE(found[0].is_slow);
  EXPECT_THAT(job.watch.slow(), IsEmpty());
  job.step = 150;
  job.times = slow_from_150(job, {Node(0), Node(1)}, 10);
  EXPECT_THAT(job.run(100), SizeIs(1)) << "a second time";
}

TEST(SlowLinkWatchTest, OneWithLessThanTheLimitIsNone) {
  WatchedLinks job(4);
  job.times = slow_from_150(job, kTestedLink, 2.5);
  EXPECT_THAT(job.run(300), IsEmpty());
}

TEST(SlowLinkWatchTest, OneThatCarriesNextToNothingIsNone) {
  WatchedLinks job(4);
  job.times = [&](NodeLink link) {
    LinkTime time = slow_from_150(job, kTestedLink, 10)(link);
    time.messages = 0.5;
    time.bulks = 0;
    return time;
  };
  EXPECT_THAT(job.run(300), IsEmpty());
}

// Who computes, or waits itself, answers late, but not always.
TEST(SlowLinkWatchTest, ANodeThatIsMostlyBusyMakesNoLinkTestedLink) {
  WatchedLinks job(4);
  job.times = [&](NodeLink link) {
    LinkTime time = WatchedLinks::usual();
    const bool is_its = link.from == Node(1) || link.to == Node(1);
    if (job.step > 150 && is_its && job.draws() % 3 != 0) {
      time.round_trip += absl::Milliseconds(30);
      time.bulk += absl::Milliseconds(30);
    }
    return time;
  };
  EXPECT_THAT(job.run(3000), IsEmpty());
}

// A line of little bandwidth is full of copies: large messages waited before, too.
TEST(SlowLinkWatchTest, RoundTripsThatWaitBehindOtherTrafficMakeNoLinkSlow) {
  for (const bool are_large_later : {false, true}) {
    WatchedLinks job(4);
    job.times = [&](NodeLink link) {
      LinkTime time = WatchedLinks::usual();
      if (job.step <= 150 || link != kTestedLink) return time;
      time.round_trip += absl::Milliseconds(30);
      if (are_large_later) time.bulk += absl::Milliseconds(30);
      return time;
    };
    EXPECT_THAT(job.run(400), SizeIs(are_large_later ? 1 : 0)) << "the line is longer if both are";
  }
}

// Its processor is slow with messages, too.
TEST(SlowLinkWatchTest, LinksOfANodeWithAStragglerAreNotJudged) {
  WatchedLinks job(4);
  job.times = slow_from_150(job, kTestedLink, 10);
  ASSERT_THAT(job.run(150), IsEmpty());
  job.slow_nodes = {Node(2)};
  EXPECT_THAT(job.run(200), IsEmpty());
  job.slow_nodes = {Node(1)};
  EXPECT_THAT(job.run(20), IsEmpty()) << "what was measured meanwhile tells nothing";
  EXPECT_THAT(job.run(40), SizeIs(1)) << "nor does what they take become usual";
}

TEST(SlowLinkWatchTest, OneThatWasSlowFromTheBeginningIsComparedWithOthersOfBothItsNodes) {
  WatchedLinks job(4);
  job.times = [](NodeLink link) {
    LinkTime time = WatchedLinks::usual();
    if (link == kTestedLink) time.bulk *= 10;
    return time;
  };
  const auto found = job.run(150);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].link, kTestedLink);
  EXPECT_NEAR(found[0].factor, 6.3, 1) << "round trips are as ever";
}

// All that goes there goes far.
TEST(SlowLinkWatchTest, ANodeInAnotherPlaceHasNoSlowLinks) {
  WatchedLinks job(5);
  job.times = [](NodeLink link) {
    LinkTime time = WatchedLinks::usual();
    if (link.from != Node(0) && link.to != Node(0)) return time;
    time.round_trip *= 20;
    time.bulk *= 5;
    return time;
  };
  EXPECT_THAT(job.run(300), IsEmpty());
}

// Of nodes 0 to 2 on one machine and 3 to 5 on another one.
TEST(SlowLinkWatchTest, NodesOfTwoMachinesHaveNone) {
  WatchedLinks job(6);
  job.times = [](NodeLink link) {
    LinkTime time = WatchedLinks::usual();
    if (link.from.value / 3 != link.to.value / 3) time.bulk *= 10;
    return time;
  };
  EXPECT_THAT(job.run(300), IsEmpty());
}

TEST(SlowLinkWatchTest, StepsHaveToPass) {
  WatchedLinks job(2);
  job.times = slow_from_150(job, {Node(0), Node(1)}, 10);
  ASSERT_THAT(job.run(170), IsEmpty());
  for (int i = 0; i < 1000; ++i) {  // a recovery, say: all lines are full, and no step is made
    job.watch.note(job.now, {Node(0), Node(1)}, Step(170), job.measured({Node(0), Node(1)}));
    EXPECT_THAT(job.watch.look(job.now, {}), IsEmpty());
  }
}

TEST(SlowLinkWatchTest, StepsThatAreRunAgainHaveToPassAgain) {
  WatchedLinks job(2);
  ASSERT_THAT(job.run(300), IsEmpty());
  job.step = 150;
  job.times = slow_from_150(job, {Node(0), Node(1)}, 10);
  EXPECT_THAT(job.run(60), SizeIs(1));
}

TEST(SlowLinkWatchTest, OneThatNobodyUsesIsSlowNoMore) {
  WatchedLinks job(4);
  job.times = slow_from_150(job, kTestedLink, 10);
  ASSERT_THAT(job.run(200), SizeIs(1));
  job.is_used = [](NodeLink link) { return link != kTestedLink; };
  EXPECT_THAT(job.run(599), IsEmpty());
  const auto found = job.run(10);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_FALSE(found[0].is_slow);
}

TEST(SlowLinkWatchTest, AnotherMachineBeginsAnew) {
  WatchedLinks job(4);
  job.times = slow_from_150(job, kTestedLink, 10);
  ASSERT_THAT(job.run(200), SizeIs(1));
  job.watch.forget(Node(2));
  EXPECT_THAT(job.watch.slow(), IsEmpty());
}

TEST(SlowLinkWatchTest, WhatMakesNoSenseIsLeftOut) {
  WatchedLinks job(2);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const absl::Duration one = absl::Milliseconds(1);
  for (const LinkTime& time :
       {LinkTime{Rank(1), one, one, nan, 1}, LinkTime{Rank(1), one, one, 1, -1},
        LinkTime{Rank(1), absl::ZeroDuration(), one, 1, 1},
        LinkTime{Rank(1), one, absl::InfiniteDuration(), 1, 1}}) {
    for (int i = 0; i < 100; ++i) job.watch.note(job.now, {Node(0), Node(1)}, Step(i), time);
  }
  job.times = slow_from_150(job, {Node(0), Node(1)}, 10);
  EXPECT_THAT(job.run(200), SizeIs(1));
}

TEST(SlowLinkWatchTest, NoiseNamesNone) {
  for (const double mean_ms : {0.02, 0.2, 2.0, 10.0}) {
    WatchedLinks job(5);
    job.lateness = std::exponential_distribution<double>(1 / mean_ms);
    EXPECT_THAT(job.run(10'000), IsEmpty()) << mean_ms;
  }
}

// ---- what a controller does

// 2 stages x 2 lanes on 2 nodes: role 0.0 sends to 1.0, which is on the other one.
struct JobWithLinks : ControlledJob {
  JobWithLinks() : ControlledJob(options()) { begins(); }
  static ControllerOptions options() {
    ControllerOptions options;
    options.nodes = 2;
    options.steps = Step(1000);
    return options;
  }
  void runs(int64_t from, int64_t to, double factor) {
    for (int64_t step = from; step <= to; ++step) {
      worker(0).measures(
          {Rank(2), factor * absl::Milliseconds(1), factor * absl::Milliseconds(5), 100, 10});
      worker(0).measures({Rank(1), factor * absl::Milliseconds(1), absl::Seconds(1), 100, 10});
      worker(0).measures({Rank(4000), absl::Seconds(1), absl::Seconds(1), 100, 10});
      commits(step, step);
    }
  }
};

TEST(SlowLinks, PeopleAreTold) {
  JobWithLinks job;
  job.runs(1, 150, 1);
  job.did();
  job.runs(151, 200, 8);
  EXPECT_EQ(job.did(), "0-1 is slow");
  EXPECT_THAT(job.said(), HasSubstr("the link from node 0 to node 1 is slow: messages take 8.0 "
                                    "times as long as usual there, to step 1"));
  EXPECT_THAT(job.said(), HasSubstr("(a round trip 8.00 ms instead of 1.00 ms, a large message "
                                    "40.0 ms instead of 5.0 ms)"));
  job.runs(201, 250, 1);
  EXPECT_EQ(job.did(), "0-1 is fast");
  EXPECT_THAT(job.said(), HasSubstr("the link from node 0 to node 1 is slow no more"));
}

TEST(SlowLinks, OfANodeThatIsLostNothingIsKnown) {
  JobWithLinks job;
  job.runs(1, 150, 1);
  job.runs(151, 200, 8);
  EXPECT_EQ(job.core().links().slow().size(), 1u);
  job.loses_node(1);
  EXPECT_TRUE(job.core().links().slow().empty());
}

}  // namespace
}  // namespace evermoe
