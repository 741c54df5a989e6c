// Oracles: Algorithm 1 of the PEC paper as printed; the smallest capacity by trying everything.
#include "protection/partial_experts/partial_experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "protection/counter_random_testing.h"

namespace evermoe {
namespace {

// E experts in blocks of E / ranks.
std::vector<int> block_owners(int experts, int ranks) {
  std::vector<int> owner_of;
  for (int e = 0; e < experts; ++e) owner_of.push_back(e / (experts / ranks));
  return owner_of;
}

std::vector<int> saved_by_rank(const LossySelection& selection, std::span<const int> owner_of,
                               int ranks) {
  std::vector<int> saved(ranks, 0);
  for (const auto& layer : selection) {
    for (const int e : layer) ++saved[owner_of[e]];
  }
  return saved;
}

int spread(const std::vector<int>& counts) {
  const auto [low, high] = std::minmax_element(counts.begin(), counts.end());
  return *high - *low;
}

void expect_k_different(const LossySelection& selection, int k) {
  for (const auto& layer : selection) {
    ASSERT_EQ(layer.size(), static_cast<size_t>(k));
    ASSERT_EQ(std::set<int>(layer.begin(), layer.end()).size(), layer.size());
  }
}

TEST(LossySequentialTest, InterleavingIsTheFormulaOfTheNotes) {
  for (const auto& [experts, ranks] : {std::pair{64, 8}, {8, 8}, {8, 2}, {12, 3}, {5, 1}}) {
    const auto interleaved = interleaved_experts(block_owners(experts, ranks), ranks);
    for (int p = 0; p < experts; ++p) {
      EXPECT_EQ(interleaved[p], (p % ranks) * (experts / ranks) + p / ranks);
    }
  }
  // Uneven owners: ranks drop out as they run out.
  EXPECT_EQ(interleaved_experts(std::vector<int>{0, 0, 0, 1, 2, 2}, 3),
            (std::vector<int>{0, 3, 4, 1, 5, 2}));
}

// 64 experts on 8 ranks, one layer, K = 8: plain order would put all eight on one rank.
TEST(LossySequentialTest, OneExpertOfEveryRank) {
  const auto owner_of = block_owners(64, 8);
  const auto selection = lossy_sequential(0, 1, 8, interleaved_experts(owner_of, 8));
  EXPECT_EQ(selection[0], (std::vector<int>{0, 8, 16, 24, 32, 40, 48, 56}));
  EXPECT_EQ(spread(saved_by_rank(selection, owner_of, 8)), 0);
}

TEST(LossySequentialTest, RanksDifferByOneAndEveryExpertIsSavedInTime) {
  for (int experts = 1; experts <= 64; ++experts) {
    for (int ranks = 1; ranks <= experts; ++ranks) {
      if (experts % ranks != 0) continue;
      const auto owner_of = block_owners(experts, ranks);
      const auto interleaved = interleaved_experts(owner_of, ranks);
      for (int k = 1; k <= experts; k += 1 + experts / 8) {
        const int layers = 1 + experts % 3, round = (experts + k - 1) / k;
        ExpertTable last(layers, std::vector<int64_t>(experts, -1));
        for (int n = 0; n < 2 * round + 1; ++n) {
          const auto selection =
              lossy_sequential(static_cast<int64_t>(n) * k, layers, k, interleaved);
          expect_k_different(selection, k);
          ASSERT_LE(spread(saved_by_rank(selection, owner_of, ranks)), 1)
              << experts << " " << ranks << " " << k;
          for (int layer = 0; layer < layers; ++layer) {
            for (const int e : selection[layer]) last[layer][e] = n;
            if (n < round - 1) continue;
            ASSERT_GT(*std::min_element(last[layer].begin(), last[layer].end()), n - round);
          }
        }
      }
    }
  }
}

TEST(LossyOldestTest, AgesAreThoseOfTheSequence) {
  int other_experts = 0;
  for (int experts = 1; experts <= 12; ++experts) {
    for (int k = 1; k <= experts; ++k) {
      std::vector<int> interleaved(experts);
      std::iota(interleaved.begin(), interleaved.end(), 0);
      const int layers = 3;
      ExpertTable sequential(layers, std::vector<int64_t>(experts, -1)), oldest = sequential;
      for (int n = 0; n < 30; ++n) {
        const auto by_cursor =
            lossy_sequential(static_cast<int64_t>(n) * k, layers, k, interleaved);
        const auto by_age = lossy_oldest(oldest, k, interleaved);
        for (int layer = 0; layer < layers; ++layer) {
          const std::set<int> first(by_cursor[layer].begin(), by_cursor[layer].end());
          const std::set<int> second(by_age[layer].begin(), by_age[layer].end());
          ASSERT_TRUE(experts % k != 0 || first == second);
          other_experts += first != second;
          for (const int e : first) sequential[layer][e] = n;
          for (const int e : second) oldest[layer][e] = n;
          auto ages = sequential[layer], same_ages = oldest[layer];
          std::sort(ages.begin(), ages.end());
          std::sort(same_ages.begin(), same_ages.end());
          ASSERT_EQ(ages, same_ages);
        }
      }
    }
  }
  EXPECT_GT(other_experts,
            0);  // 5 experts, K = 2: the fifth checkpoint takes 3 and 0 instead of 3 and 4
}

TEST(LossyOldestTest, AVariableKLeavesNoExpertBehind) {
  CounterRandom random(1);
  const int experts = 8;
  std::vector<int> interleaved(experts);
  std::iota(interleaved.begin(), interleaved.end(), 0);
  ExpertTable last(1, std::vector<int64_t>(experts, -1));
  std::vector<int> ks;
  for (int n = 0; n < 2000; ++n) {
    ks.push_back(static_cast<int>(random.integer(1, experts)));
    const auto selection = lossy_oldest(last, ks.back(), interleaved);
    for (const int e : selection[0]) last[0][e] = n;
    // Whoever was not saved lately has waited while fewer than E others were.
    const int64_t oldest = *std::min_element(last[0].begin(), last[0].end());
    int saved_since = 0;
    for (int64_t m = oldest + 1; m <= n; ++m) saved_since += ks[m];
    ASSERT_LT(saved_since, experts);
  }
}

// ---- load-aware ---------------------------------------------------------------------------------

// Algorithm 1 as meant: from the last layer to the first, most unsaved tokens first, capacity by
// owner.
LossySelection pec_algorithm_1(const ExpertTable& unsaved, int k, std::span<const int> owner_of,
                               int ranks) {
  const int layers = static_cast<int>(unsaved.size());
  std::vector<int> capacity(ranks, (layers * k + ranks - 1) / ranks);
  LossySelection selection(layers);
  for (int layer = layers - 1; layer >= 0; --layer) {
    std::vector<int> sorted(owner_of.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](int a, int b) { return unsaved[layer][a] > unsaved[layer][b]; });
    for (const int e : sorted) {
      if (static_cast<int>(selection[layer].size()) == k) break;
      if (capacity[owner_of[e]] == 0) continue;
      --capacity[owner_of[e]];
      selection[layer].push_back(e);
    }
  }
  return selection;
}

TEST(LossyLoadAwareTest, UnderFillOfAlgorithm1IsRepaired) {
  const ExpertTable unsaved(3, {9, 8, 1});
  const std::vector<int> owner_of{0, 1, 2};
  const auto printed = pec_algorithm_1(unsaved, 2, owner_of, 3);
  EXPECT_EQ(printed, (LossySelection{{2}, {0, 1}, {0, 1}}));
  const auto result = lossy_load_aware(unsaved, 2, owner_of, 3);
  expect_k_different(result.selection, 2);
  EXPECT_EQ(result.capacity, 2);
  EXPECT_EQ(saved_by_rank(result.selection, owner_of, 3), (std::vector<int>{2, 2, 2}));
}

// Two layers, two experts on two ranks, K = 1, 10 and 1 tokens between checkpoints: by Algorithm 1
// layer 0's popular expert waits ten checkpoints, and up to 110 tokens are exposed; over all
// layers 11.
TEST(LossyLoadAwareTest, EarlyLayersDoNotStarve) {
  const std::vector<int> owner_of{0, 1};
  int64_t exposed_max[2] = {0, 0};
  int waited = 0, waited_max = 0;
  for (const bool printed : {true, false}) {
    ExpertTable unsaved(2, {0, 0});
    for (int n = 0; n < 60; ++n) {
      for (auto& layer : unsaved) {
        layer[0] += 10;
        layer[1] += 1;
      }
      const auto selection = printed ? pec_algorithm_1(unsaved, 1, owner_of, 2)
                                     : lossy_load_aware(unsaved, 1, owner_of, 2).selection;
      for (size_t layer = 0; layer < 2; ++layer) {
        for (const int e : selection[layer]) unsaved[layer][e] = 0;
      }
      const int64_t exposed = unsaved[0][0] + unsaved[0][1] + unsaved[1][0] + unsaved[1][1];
      exposed_max[printed] = std::max(exposed_max[printed], exposed);
      if (printed) waited_max = std::max(waited_max, waited = unsaved[0][0] == 0 ? 0 : waited + 1);
    }
  }
  EXPECT_EQ(waited_max, 10);
  EXPECT_EQ(exposed_max[true], 110);
  EXPECT_EQ(exposed_max[false], 11);
}

TEST(LossyLoadAwareTest, AlwaysKPerLayerWithinCapacity) {
  CounterRandom random(2);
  int repaired = 0, printed_short = 0;
  for (int trial = 0; trial < 6000; ++trial) {
    const int ranks = static_cast<int>(random.integer(1, 5));
    const int experts = ranks * static_cast<int>(random.integer(1, 4));
    const int layers = static_cast<int>(random.integer(1, 6)),
              k = static_cast<int>(random.integer(1, experts));
    auto owner_of = block_owners(experts, ranks);
    for (int i = experts - 1; i > 0; --i) std::swap(owner_of[i], owner_of[random.integer(0, i)]);
    ExpertTable unsaved(layers, std::vector<int64_t>(experts));
    for (auto& layer : unsaved) {
      for (int64_t& tokens : layer) tokens = random.integer(0, trial % 2 ? 5 : 1000);
    }
    const auto result = lossy_load_aware(unsaved, k, owner_of, ranks);
    ASSERT_EQ(result.capacity, (layers * k + ranks - 1) / ranks);
    expect_k_different(result.selection, k);
    for (const int saved : saved_by_rank(result.selection, owner_of, ranks))
      ASSERT_LE(saved, result.capacity);
    repaired += result.repairs > 0;
    printed_short +=
        std::ranges::any_of(pec_algorithm_1(unsaved, k, owner_of, ranks),
                            [&](const auto& layer) { return static_cast<int>(layer.size()) < k; });
  }
  EXPECT_GT(repaired, 150);
  EXPECT_GT(printed_short, 300);
}

// Without a need to repair it is the plain greedy choice over all layers.
TEST(LossyLoadAwareTest, MostUnsavedTokensFirst) {
  const ExpertTable unsaved{{5, 40, 7, 1}, {30, 2, 50, 3}};
  const std::vector<int> owner_of{0, 0, 1, 1};
  const auto result = lossy_load_aware(unsaved, 1, owner_of, 2);
  EXPECT_EQ(result.selection, (LossySelection{{1}, {2}}));
  EXPECT_EQ(result.repairs, 0);
}

// The least capacity that allows K per layer, by trying all selections.
int least_capacity(int layers, int experts, int k, std::span<const int> owner_of, int ranks) {
  int best = layers * k;
  std::vector<int> load(ranks, 0);
  const std::function<void(int, int, int)> choose = [&](int layer, int expert, int left) {
    if (layer == layers) {
      best = std::min(best, *std::max_element(load.begin(), load.end()));
      return;
    }
    if (left == 0) return choose(layer + 1, 0, k);
    for (int e = expert; e < experts; ++e) {
      ++load[owner_of[e]];
      choose(layer, e + 1, left - 1);
      --load[owner_of[e]];
    }
  };
  choose(0, 0, k);
  return best;
}

TEST(LossyLoadAwareTest, UnevenOwnersRaiseTheCapacityNoMoreThanNeeded) {
  CounterRandom random(3);
  int raised = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    const int ranks = static_cast<int>(random.integer(1, 3)),
              experts = static_cast<int>(random.integer(1, 4));
    const int layers = static_cast<int>(random.integer(1, 3)),
              k = static_cast<int>(random.integer(1, experts));
    std::vector<int> owner_of(experts);
    for (int& owner : owner_of) owner = static_cast<int>(random.integer(0, ranks - 1));
    ExpertTable unsaved(layers, std::vector<int64_t>(experts));
    for (auto& layer : unsaved) {
      for (int64_t& tokens : layer) tokens = random.integer(0, 9);
    }
    const auto result = lossy_load_aware(unsaved, k, owner_of, ranks);
    const int average = (layers * k + ranks - 1) / ranks;
    ASSERT_EQ(result.capacity,
              std::max(average, least_capacity(layers, experts, k, owner_of, ranks)));
    expect_k_different(result.selection, k);
    for (const int saved : saved_by_rank(result.selection, owner_of, ranks))
      ASSERT_LE(saved, result.capacity);
    raised += result.capacity > average;
  }
  EXPECT_GT(raised, 200);
}

// ---- two levels ---------------------------------------------------------------------------------

// Age in checkpoints of the oldest stored image, after the first round.
int64_t oldest_image(int snapshot_k, int persist_k) {
  const int experts = 8;
  std::vector<int> interleaved(experts);
  std::iota(interleaved.begin(), interleaved.end(), 0);
  ExpertTable snapshots(1, std::vector<int64_t>(experts, -1)), images = snapshots;
  int64_t oldest = 0;
  for (int64_t n = 0; n < 200; ++n) {
    const auto selection = lossy_two_level(snapshots, images, snapshot_k, persist_k, interleaved);
    for (const int e : selection.snapshot[0]) snapshots[0][e] = n;
    for (const int e : selection.persist[0]) {
      EXPECT_EQ(snapshots[0][e], n);  // only what was copied can be stored
      images[0][e] = n;
    }
    if (n >= 50)
      oldest = std::max(oldest, n - *std::min_element(images[0].begin(), images[0].end()));
  }
  return oldest;
}

TEST(LossyTwoLevelTest, StoredImagesStayYoungWhereTheNumbersDivide) {
  for (const int snapshot_k : {1, 2, 4, 8}) EXPECT_EQ(oldest_image(snapshot_k, 1), 7) << snapshot_k;
  EXPECT_EQ(oldest_image(4, 2), 3);
  EXPECT_EQ(oldest_image(3, 1), 9);
}

}  // namespace
}  // namespace evermoe
