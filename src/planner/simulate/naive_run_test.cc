// The simulation against the run that is played step by step, on random small cases.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/simulate/naive_run_testing.h"
#include "planner/simulate/random_stream.h"

namespace evermoe {
namespace {

struct Case {
  TrainedJob job;
  RunStrategy strategy;
  FailureLaw law;
  int nodes = 1;
  int racks = 0;
  double wall_seconds = 0;
};

PeriodicSave random_save(RandomStream& random, int64_t every) {
  PeriodicSave save{.every_steps = every};
  if (random.below(3) > 0) save.stall_seconds = 3 * random.uniform();
  if (random.below(2) > 0)
    save.durable_after_seconds = 2.0 * static_cast<double>(every) * random.uniform();
  return save;
}

RecoverySeconds random_recovery(RandomStream& random) {
  auto seconds = [&] { return random.below(4) == 0 ? 0 : 20 * random.uniform(); };
  return {seconds(),     seconds(), seconds(), seconds(), seconds(),
          3 * seconds(), 0,         seconds(), seconds()};
}

Case random_case(uint64_t seed) {
  RandomStream random(seed, 1000);
  Case c;
  c.job.step_seconds = 0.5 + random.uniform();
  c.job.nodes = 1 + random.below(8);
  c.job.nodes_least = 1 + random.below(c.job.nodes);
  c.job.elastic_unit = 1 + random.below(3);
  c.job.stages = 1 + random.below(5);
  c.job.rounds = 1 + random.below(8);
  c.nodes = c.job.nodes + random.below(4);
  c.racks = random.below(4);
  c.job.racks = random.below(2) ? c.racks : 0;
  c.strategy.protection = static_cast<StateProtection>(random.below(7));
  c.strategy.replacement = static_cast<NodeReplacement>(random.below(3));
  c.strategy.copies = random.below(4);
  c.strategy.step_overhead_share = random.below(2) * 0.2 * random.uniform();
  const int64_t every = 1 + random.below(12);
  c.strategy.save = random_save(random, every);
  c.strategy.fallback = random_save(random, random.below(2) ? 10 + random.below(60) : 0);
  c.strategy.sparse = {1 + random.below(6), random.below(3), 5 * random.uniform()};
  c.strategy.lossy.experts = 1 + random.below(9);
  c.strategy.lossy.saved = 1 + random.below(c.strategy.lossy.experts);
  c.strategy.recovery = random_recovery(random);
  const double mtbf = 20 + 2000 * std::pow(random.uniform(), 2);
  c.law = {.node_mtbf_seconds = mtbf * c.job.nodes, .shape = 0.5 + random.uniform()};
  if (random.below(3) > 0) c.law.repair_seconds = 100 * random.uniform();
  c.law.crash_share = random.below(2) * random.uniform();
  if (c.racks > 0 && random.below(2)) {
    c.law.rack_mtbf_seconds = 3000;
    c.law.rack_repair_seconds = 60;
  }
  if (random.below(4) == 0) c.law.whole_job_node_seconds = 800.0 * c.nodes;
  c.wall_seconds = 2000;
  return c;
}

std::string describe(const Case& c, uint64_t seed) {
  return absl::StrCat("seed ", seed, ": ", to_string(c.strategy.protection), ", ",
                      to_string(c.strategy.replacement), ", nodes ", c.job.nodes, " of ", c.nodes,
                      ", copies ", c.strategy.copies, ", fallback every ",
                      c.strategy.fallback.every_steps);
}

void expect_equal(const SimulatedRun& fast, const SimulatedRun& naive, const std::string& what) {
  EXPECT_EQ(fast.interruptions, naive.interruptions) << what;
  EXPECT_EQ(fast.recoveries, naive.recoveries) << what;
  EXPECT_EQ(fast.fallbacks, naive.fallbacks) << what;
  EXPECT_EQ(fast.shrinks, naive.shrinks) << what;
  EXPECT_NEAR(fast.lost_steps, naive.lost_steps, 1e-6) << what;
  EXPECT_NEAR(fast.useful_seconds, naive.useful_seconds, 1e-5) << what;
  EXPECT_NEAR(fast.protection_seconds, naive.protection_seconds, 1e-5) << what;
  EXPECT_NEAR(fast.rework_seconds, naive.rework_seconds, 1e-5) << what;
  EXPECT_NEAR(fast.recovery_seconds, naive.recovery_seconds, 1e-5) << what;
  EXPECT_NEAR(fast.detection_seconds, naive.detection_seconds, 1e-5) << what;
  EXPECT_NEAR(fast.change_seconds, naive.change_seconds, 1e-5) << what;
  EXPECT_NEAR(fast.waiting_seconds, naive.waiting_seconds, 1e-5) << what;
  EXPECT_NEAR(fast.shrunk_seconds, naive.shrunk_seconds, 1e-5) << what;
}

// The spans fill the run and show what it counts. (Lost training is counted by the clock of
// training, and shown by that of the wall: as long only at full speed.)
void expect_spans_of(const SimulatedRun& run, const std::vector<RunSpan>& spans,
                     const std::string& what) {
  std::map<RunSpan::Kind, double> seconds;
  double end = 0;
  for (const RunSpan& span : spans) {
    EXPECT_EQ(span.begin_seconds, end) << what;
    EXPECT_GT(span.end_seconds, span.begin_seconds) << what;
    end = span.end_seconds;
    seconds[span.kind] += span.end_seconds - span.begin_seconds;
  }
  EXPECT_NEAR(end, run.wall_seconds, 1e-9) << what;
  EXPECT_NEAR(seconds[RunSpan::Kind::kWaiting], run.waiting_seconds, 1e-5) << what;
  EXPECT_NEAR(seconds[RunSpan::Kind::kDetecting], run.detection_seconds, 1e-5) << what;
  EXPECT_NEAR(seconds[RunSpan::Kind::kChanging], run.change_seconds, 1e-5) << what;
  EXPECT_NEAR(seconds[RunSpan::Kind::kRestoring], run.restore_seconds(), 1e-5) << what;
  EXPECT_GE(seconds[RunSpan::Kind::kLost], run.rework_seconds - 1e-5) << what;
  if (run.shrinks == 0) {
    EXPECT_NEAR(seconds[RunSpan::Kind::kLost], run.rework_seconds, 1e-5) << what;
  }
}

TEST(NaiveRunTest, EveryStepPlayedGivesTheSameRun) {
  int64_t interruptions = 0, fallbacks = 0, shrinks = 0;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    const Case c = random_case(seed);
    const auto fast_source = draw_availability(c.law, c.nodes, c.racks, seed);
    const auto naive_source = draw_availability(c.law, c.nodes, c.racks, seed);
    std::vector<RunSpan> spans;
    const SimulatedRun fast =
        simulate_run(c.job, c.strategy, *fast_source, {.wall_seconds = c.wall_seconds}, &spans);
    const SimulatedRun naive =
        naive_run(c.job, c.strategy, *naive_source, {.wall_seconds = c.wall_seconds});
    expect_equal(fast, naive, describe(c, seed));
    expect_spans_of(fast, spans, describe(c, seed));
    interruptions += fast.interruptions;
    fallbacks += fast.fallbacks;
    shrinks += fast.shrinks;
    if (HasFailure()) break;
  }
  RecordProperty("interruptions", std::to_string(interruptions));
  // The cases take the branches that they are for.
  EXPECT_GT(interruptions, 15000);
  EXPECT_GT(fallbacks, 1500);
  EXPECT_GT(shrinks, 500);
}

}  // namespace
}  // namespace evermoe
