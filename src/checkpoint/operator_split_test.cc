// Oracle: dynamic programming over granules.
#include "checkpoint/operator_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>

#include "checkpoint/counter_random_testing.h"

namespace evermoe {
namespace {

// What may not be cut: a whole operator that fits, or one granule of one that does not.
std::vector<OperatorCost> atoms_of(std::span<const OperatorCost> costs, int64_t budget, int64_t granularity) {
  std::vector<OperatorCost> atoms;
  for (size_t i = 0; i < costs.size(); ++i) {
    int64_t alone = costs[i].full_bytes;
    for (size_t j = i + 1; j < costs.size(); ++j) alone += costs[j].compute_bytes;
    if (alone <= budget) {
      atoms.push_back(costs[i]);
      continue;
    }
    const auto before = [&](int64_t at) { return costs[i].compute_bytes * at / costs[i].full_bytes; };
    for (int64_t at = 0; at < costs[i].full_bytes; at += granularity) {
      const int64_t end = std::min(at + granularity, costs[i].full_bytes);
      atoms.push_back({end - at, before(end) - before(at)});
    }
  }
  return atoms;
}

// Fewest slots of any partition of the atoms, INT_MAX without one.
int fewest_slots(std::span<const OperatorCost> atoms, int64_t budget) {
  const int n = static_cast<int>(atoms.size());
  std::vector<int> fewest(n + 1, INT_MAX);  // for the atoms before i
  fewest[0] = 0;
  for (int end = 1; end <= n; ++end) {
    for (int begin = 0; begin < end; ++begin) {
      if (fewest[begin] == INT_MAX || slot_bytes(atoms, {begin, end}) > budget) continue;
      fewest[end] = std::min(fewest[end], fewest[begin] + 1);
    }
  }
  return fewest[n];
}

void expect_whole_and_aligned(std::span<const OperatorCost> costs, std::span<const OperatorPiece> pieces,
                              int64_t granularity) {
  size_t next = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    OperatorCost sum;
    int64_t at = 0;
    do {
      ASSERT_LT(next, pieces.size());
      const OperatorPiece& piece = pieces[next++];
      ASSERT_EQ(piece.operator_index, static_cast<int>(i));
      ASSERT_EQ(piece.begin, at);
      ASSERT_EQ(piece.begin % granularity, 0);
      ASSERT_EQ(piece.cost.full_bytes, piece.end - piece.begin);
      at = piece.end;
      sum.full_bytes += piece.cost.full_bytes;
      sum.compute_bytes += piece.cost.compute_bytes;
    } while (at < costs[i].full_bytes);
    ASSERT_EQ(sum, costs[i]);
  }
  ASSERT_EQ(next, pieces.size());
}

TEST(OperatorSplitTest, PiecesGiveTheShortestWindowOverAllCuts) {
  CounterRandom random(1);
  int split = 0, infeasible = 0;
  for (int trial = 0; trial < 6000; ++trial) {
    std::vector<OperatorCost> costs(random.integer(1, 4));
    for (OperatorCost& cost : costs) {
      cost.full_bytes = random.integer(1, 40);
      cost.compute_bytes = random.integer(0, cost.full_bytes / 2);
    }
    const int64_t budget = random.integer(5, 60), granularity = random.integer(1, 6);
    const auto atoms = atoms_of(costs, budget, granularity);
    const int fewest = fewest_slots(atoms, budget);
    const auto answer = split_oversized(costs, budget, granularity);
    if (const auto* why = std::get_if<WindowInfeasible>(&answer)) {
      ++infeasible;
      ASSERT_EQ(fewest, INT_MAX) << "trial " << trial;
      ASSERT_TRUE(std::holds_alternative<std::vector<OperatorPiece>>(
          split_oversized(costs, budget + why->missing_bytes, granularity)));
      ASSERT_TRUE(std::holds_alternative<WindowInfeasible>(
          split_oversized(costs, budget + why->missing_bytes - 1, granularity)));
      continue;
    }
    const auto& pieces = std::get<std::vector<OperatorPiece>>(answer);
    expect_whole_and_aligned(costs, pieces, granularity);
    const auto window = minimal_window(piece_costs(pieces), budget);
    ASSERT_EQ(std::get<Window>(window).length(), fewest) << "trial " << trial;
    split += pieces.size() > costs.size();
  }
  EXPECT_GT(split, 1500);
  EXPECT_GT(infeasible, 500);
}

TEST(OperatorSplitTest, NothingIsCutWithoutNeed) {
  const std::vector<OperatorCost> costs{{12, 2}, {12, 2}};
  EXPECT_EQ(std::get<std::vector<OperatorPiece>>(split_oversized(costs, 14, 1)),
            (std::vector<OperatorPiece>{{0, 0, 12, {12, 2}}, {1, 0, 12, {12, 2}}}));
}

TEST(OperatorSplitTest, AnEmbeddingIsCutAtWholeElements) {
  // 1000 elements of 14 bytes, granules of 64 elements; budget 6000 bytes.
  const std::vector<OperatorCost> costs{{14000, 2000}};
  const auto pieces = std::get<std::vector<OperatorPiece>>(split_oversized(costs, 6000, 64 * 14));
  // The last piece holds at most 6000 bytes, the one before 6000 less the compute bytes after it.
  EXPECT_EQ(pieces, (std::vector<OperatorPiece>{{0, 0, 3584, {3584, 512}},
                                                {0, 3584, 8064, {4480, 640}},
                                                {0, 8064, 14000, {5936, 848}}}));
}

TEST(OperatorSplitTest, ComputeBytesAloneCannotBeSplitAway) {
  const std::vector<OperatorCost> costs{{120, 20}, {600, 100}};
  const auto why = std::get<WindowInfeasible>(split_oversized(costs, 110, 6));
  EXPECT_GT(why.missing_bytes, 0);
  EXPECT_NE(why.reason.find("splitting further does not help"), std::string::npos) << why.reason;
}

}  // namespace
}  // namespace evermoe
