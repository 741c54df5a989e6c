#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "planner/cost/pipeline_time.h"
#include "planner/simulate/random_stream.h"

namespace evermoe {
namespace {

TEST(PipelineSecondsTest, EqualStagesTakeRoundsAndStagesLessOne) {
  for (int stages = 1; stages <= 6; ++stages) {
    for (int rounds : {1, 4, 16}) {
      const std::vector<int> lanes(static_cast<size_t>(stages), 3);
      const std::vector<double> forward(static_cast<size_t>(stages), 1.0),
          backward(static_cast<size_t>(stages), 2.0);
      const double played = pipeline_seconds(lanes, 3 * rounds, forward, backward);
      // Fewer rounds than stages behind a stage leave no more to fill the pipeline with.
      EXPECT_NEAR(played, 3.0 * (rounds + stages - 1), 1e-9)
          << stages << " stages, " << rounds << " rounds";
    }
  }
}

TEST(PipelineSecondsTest, NeverShorterThanTheBusiestStageOrOneMicroBatch) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomStream random(seed, 0);
    const int stages = 1 + random.below(5), micro_batches = 1 + random.below(20);
    std::vector<int> lanes;
    std::vector<double> forward, backward;
    double busiest = 0, path = 0, all = 0;
    for (int s = 0; s < stages; ++s) {
      lanes.push_back(1 + random.below(4));
      forward.push_back(random.uniform());
      backward.push_back(random.uniform());
      const int rounds = (micro_batches + lanes.back() - 1) / lanes.back();
      busiest = std::max(busiest, rounds * (forward.back() + backward.back()));
      path += forward.back() + backward.back();
      all += rounds * (forward.back() + backward.back());
    }
    const double played = pipeline_seconds(lanes, micro_batches, forward, backward);
    EXPECT_GE(played, std::max(busiest, path) - 1e-9) << seed;
    EXPECT_LE(played, all + 1e-9) << seed;
  }
}

}  // namespace
}  // namespace evermoe
