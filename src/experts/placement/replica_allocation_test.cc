#include "experts/placement/replica_allocation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "parallel/random_testing.h"

namespace evermoe {
namespace {

using Loads = std::vector<int64_t>;
using Replicas = std::vector<int>;

Replicas allocated(const Loads& loads, int nodes, int slots, int faults) {
  const auto allocation = allocate_replicas(loads, nodes, slots, faults);
  EXPECT_TRUE(allocation.ok()) << allocation.status();
  return allocation.ok() ? allocation->replicas : Replicas{};
}

TEST(ReplicaAllocationTest, WorkedExamples) {
  EXPECT_EQ(allocated({1, 1, 1, 5}, 4, 2, 1), (Replicas{1, 1, 1, 5}));
  EXPECT_EQ(allocated({0, 0, 0, 0}, 3, 2, 1), (Replicas{1, 1, 2, 2}));
  EXPECT_EQ(allocated({1, 2, 3, 4}, 3, 2, 2), (Replicas{1, 1, 2, 2}));
  EXPECT_EQ(allocate_replicas(Loads{1, 2, 3, 4}, 3, 2, 2)->faults, 1);
  EXPECT_EQ(allocated({7, 1, 4}, 2, 4, 5), (Replicas{4, 2, 2}));
  EXPECT_EQ(allocate_replicas(Loads{7, 1, 4}, 2, 4, 5)->faults, 2);
  EXPECT_EQ(allocated({10, 20, 30, 40, 50, 60, 70, 720}, 10, 6, 2),
            (Replicas{2, 2, 2, 3, 3, 4, 4, 40}));
  EXPECT_EQ(allocated({0, 3, 5}, 2, 3, 1), (Replicas{1, 2, 3}));
  // Equation (1) in doubles gives the first of 49 equal experts 1 replica and the last 3.
  EXPECT_EQ(allocated(Loads(49, 1), 7, 14, 1), Replicas(49, 2));
}

TEST(ReplicaAllocationTest, RefusesInOneLine) {
  const auto message = [](const Loads& loads, int nodes, int slots, int faults) {
    return std::string(allocate_replicas(loads, nodes, slots, faults).status().message());
  };
  EXPECT_EQ(message({1, 2, 3, 4, 5}, 2, 2, 1), "5 experts do not fit in 2 nodes of 2 slots");
  EXPECT_EQ(message({1, -2}, 2, 2, 1), "expert 1 has load -2");
  EXPECT_EQ(message({}, 2, 2, 1), "there are no experts to place");
  EXPECT_EQ(message({1}, 0, 2, 1), "no room for experts: 0 nodes of 2 slots");
  EXPECT_EQ(message({1}, 2, 2, -1), "the fault threshold is -1, must be at least 0");
  EXPECT_EQ(message({1}, 1 << 20, 1 << 20, 1),
            "1099511627776 replica slots are more than 1073741824");
}

// t / r as a fraction that compares exactly.
struct Share {
  int64_t tokens = 0;
  int64_t replicas = 1;
  friend bool operator<(const Share& a, const Share& b) {
    return a.tokens * b.replicas < b.tokens * a.replicas;
  }
};

std::vector<Share> shares_descending(const Loads& loads, const Replicas& replicas) {
  std::vector<Share> shares;
  for (size_t e = 0; e < loads.size(); ++e) shares.push_back({loads[e], replicas[e]});
  std::sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) { return b < a; });
  return shares;
}

// The least sorted vector of shares over every allocation.
std::vector<Share> best_of_all(const Loads& loads, int room, int least) {
  std::vector<Share> best;
  Replicas replicas(loads.size(), least);
  std::function<void(size_t, int)> choose = [&](size_t expert, int left) {
    if (expert + 1 == loads.size()) {
      replicas[expert] = least + left;
      const auto shares = shares_descending(loads, replicas);
      if (best.empty() ||
          std::lexicographical_compare(shares.begin(), shares.end(), best.begin(), best.end())) {
        best = shares;
      }
      return;
    }
    for (int more = 0; more <= left; ++more) {
      replicas[expert] = least + more;
      choose(expert + 1, left - more);
    }
  };
  choose(0, room - least * static_cast<int>(loads.size()));
  return best;
}

TEST(ReplicaAllocationTest, TheWholeVectorOfSharesIsTheLeastOfAllAllocations) {
  TestRandom random(11);
  for (int trial = 0; trial < 4000; ++trial) {
    const int nodes = random.integer(1, 4), slots = random.integer(1, 4);
    const int experts = random.integer(1, std::min(5, nodes * slots)),
              faults = random.integer(0, 4);
    Loads loads;
    for (int e = 0; e < experts; ++e) loads.push_back(random.integer(0, trial % 3 == 0 ? 3 : 60));
    const auto allocation = allocate_replicas(loads, nodes, slots, faults);
    ASSERT_TRUE(allocation.ok());
    const auto ours = shares_descending(loads, allocation->replicas);
    const auto best = best_of_all(loads, nodes * slots, allocation->faults);
    ASSERT_FALSE(std::lexicographical_compare(best.begin(), best.end(), ours.begin(), ours.end()))
        << "trial " << trial;
  }
}

TEST(ReplicaAllocationTest, ExactSumThresholdAndOrderOnLargeLoads) {
  TestRandom random(12);
  for (int trial = 0; trial < 500; ++trial) {
    const int nodes = random.integer(1, 64), slots = random.integer(1, 16);
    const int experts = random.integer(1, std::min(64, nodes * slots)),
              faults = random.integer(0, 6);
    Loads loads;
    for (int e = 0; e < experts; ++e) {
      const int64_t heavy = std::numeric_limits<int64_t>::max() >> random.integer(0, 62);
      loads.push_back(random.integer(0, 4) == 0 ? 0 : heavy);
    }
    const auto allocation = allocate_replicas(loads, nodes, slots, faults);
    ASSERT_TRUE(allocation.ok());
    const Replicas& replicas = allocation->replicas;
    EXPECT_EQ(std::accumulate(replicas.begin(), replicas.end(), 0), nodes * slots);
    EXPECT_EQ(allocation->faults, std::max(1, std::min({faults, nodes, nodes * slots / experts})));
    for (int a = 0; a < experts; ++a) {
      EXPECT_GE(replicas[a], allocation->faults);
      for (int b = 0; b < experts; ++b) {
        if (loads[a] < loads[b] || (loads[a] == loads[b] && a < b)) {
          EXPECT_LE(replicas[a], replicas[b]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace evermoe
