// A simulated job that is run with faults and without, and whose bits are compared.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/log.h"
#include "sim/simulated_job.h"

namespace evermoe {

inline std::string explain(const SimulatedOutcome& outcome) {
  return outcome.reason + "\n" + absl::StrJoin(outcome.story, "\n") + "\n" + outcome.waiting;
}

class SimulatedJobTest : public testing::Test {
 protected:
  SimulatedJobTest() {
    configure_log("sim", LogLevel::kError);
    shape_.network.time_max = absl::Minutes(2);
    shape_.model.evaluate_every = 4;
    shape_.model.save_every = 5;
  }

  // A fault when `rank` passes `point` for the `passing`-th time.
  static SimulatedFault kill(int rank, const std::string& point, int64_t passing) {
    return {.kind = SimulatedFault::Kind::kKillWorker,
            .rank = Rank(rank),
            .point = point,
            .at_rank = Rank(rank),
            .passing = passing};
  }
  SimulatedOutcome run(std::vector<SimulatedFault> faults = {}) {
    return SimulatedJob(shape_, std::move(faults)).run();
  }
  // Runs it and expects the bits of the undisturbed job.
  SimulatedOutcome survives(std::vector<SimulatedFault> faults) {
    const SimulatedOutcome expected = run();
    const SimulatedOutcome outcome = run(std::move(faults));
    EXPECT_TRUE(expected.ok && outcome.ok) << explain(outcome);
    EXPECT_EQ(outcome.digest, expected.digest) << explain(outcome);
    EXPECT_THAT(outcome.violations, testing::IsEmpty()) << explain(outcome);
    EXPECT_EQ(outcome.samples, shape_.model.steps * shape_.model.micro_batches);
    return outcome;
  }
  static std::vector<int> rolled_back(const SimulatedOutcome& outcome) {
    EXPECT_FALSE(outcome.recoveries.empty()) << explain(outcome);
    return outcome.recoveries.empty() ? std::vector<int>()
                                      : outcome.recoveries[0].rolled_back_stages;
  }

  SimulatedShape shape_;
};

}  // namespace evermoe
