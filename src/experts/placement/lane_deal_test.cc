#include "experts/placement/lane_deal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "parallel/random_testing.h"

namespace evermoe {
namespace {

using Held = std::vector<std::vector<int>>;

struct Case {
  int lanes = 1, slots = 1;
  std::vector<int64_t> shares;  // falling
  std::vector<int> replicas;
};

// As many replicas as there is room for, many of them of equal experts.
Case random_case(TestRandom& random) {
  Case drawn{.lanes = random.integer(1, 24), .slots = random.integer(1, 7)};
  const int share_max = random.integer(0, 1) == 0 ? 3 : 1000;
  for (int left = drawn.lanes * drawn.slots; left > 0; left -= drawn.replicas.back()) {
    const int replicas_max = random.integer(0, 1) == 0 ? drawn.lanes : std::min(3, drawn.lanes);
    drawn.replicas.push_back(random.integer(1, std::min(left, replicas_max)));
    drawn.shares.push_back(random.integer(0, share_max));
  }
  std::ranges::sort(drawn.shares, std::greater<>());
  return drawn;
}

Held held_of(const LaneDeal& deal, int lanes) {
  Held held;
  for (int lane = 0; lane < lanes; ++lane)
    held.emplace_back(deal.on_lane(lane).begin(), deal.on_lane(lane).end());
  return held;
}

int64_t load_of(const std::vector<int>& held, const Case& of) {
  int64_t load = 0;
  for (const int expert : held) load += of.shares[static_cast<size_t>(expert)];
  return load;
}

bool holds(const std::vector<int>& held, int expert) {
  return std::ranges::count(held, expert) > 0;
}

// Every replica by itself to the lane that comes first.
Held dealt_one_by_one(const Case& of) {
  Held held(static_cast<size_t>(of.lanes));
  for (size_t e = 0; e < of.replicas.size(); ++e) {
    const int expert = static_cast<int>(e);
    for (int i = 0; i < of.replicas[e]; ++i) {
      const auto rank = [&](const std::vector<int>& on_lane) {
        return std::tuple(holds(on_lane, expert), on_lane.size(), load_of(on_lane, of));
      };
      std::ranges::min_element(held, {}, rank)->push_back(expert);
    }
  }
  return held;
}

// The busiest lane against up to 16 others, looking at every pair of replicas.
void even_out_plainly(Held& held, const Case& of, int exchanges) {
  std::vector<size_t> order(held.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (; exchanges > 0; --exchanges) {
    const auto key = [&](size_t lane) { return std::pair(load_of(held[lane], of), lane); };
    std::ranges::sort(order, {}, key);
    std::vector<int>& busiest = held[order.back()];
    const int64_t before = load_of(busiest, of);
    int64_t sum = 0;
    for (const auto& on_lane : held) sum += load_of(on_lane, of);
    const int64_t mean = sum / std::ssize(held);
    if (before - mean <= mean / 256) return;
    std::tuple<int64_t, int*, int*> best(before, nullptr, nullptr);
    for (size_t i = 0; i + 1 < order.size() && i < 16; ++i) {
      std::vector<int>& other = held[order[i]];
      for (int& out : busiest) {
        for (int& in : other) {
          const int64_t moved =
              of.shares[static_cast<size_t>(out)] - of.shares[static_cast<size_t>(in)];
          const int64_t busier = std::max(before - moved, load_of(other, of) + moved);
          if (moved > 0 && busier < std::get<0>(best) && !holds(other, out) && !holds(busiest, in))
            best = {busier, &out, &in};
        }
      }
    }
    if (std::get<1>(best) == nullptr) return;
    std::swap(*std::get<1>(best), *std::get<2>(best));
  }
}

LaneDeal dealt(const Case& of) {
  LaneDeal deal(of.shares, of.lanes, of.slots);
  for (size_t e = 0; e < of.replicas.size(); ++e) deal.add(static_cast<int>(e), of.replicas[e]);
  return deal;
}

TEST(LaneDealTest, TheSameAsEveryReplicaByItself) {
  TestRandom random(31);
  for (int round = 0; round < 3000; ++round) {
    const Case drawn = random_case(random);
    ASSERT_EQ(held_of(dealt(drawn), drawn.lanes), dealt_one_by_one(drawn)) << round;
  }
}

// Three replicas begin where one lane has room in this round: the next round's first lanes would be
// that one again.
TEST(LaneDealTest, AnExpertOfTwoRoundsIsOnNoLaneTwice) {
  LaneDeal deal({5, 1}, 3, 2);
  deal.add(0, 2);
  deal.add(1, 3);
  EXPECT_EQ(held_of(deal, 3), (Held{{0, 1}, {0, 1}, {1}}));
}

TEST(LaneDealTest, ExchangesAreTheBestOfAllThatTheBusiestLaneMayMake) {
  TestRandom random(32);
  int exchanged = 0;
  for (int round = 0; round < 3000; ++round) {
    const Case drawn = random_case(random);
    LaneDeal deal = dealt(drawn);
    Held plain = held_of(deal, drawn.lanes);
    const int exchanges = random.integer(0, 20);
    deal.even_out(exchanges);
    exchanged += held_of(deal, drawn.lanes) != plain;
    even_out_plainly(plain, drawn, exchanges);
    ASSERT_EQ(held_of(deal, drawn.lanes), plain) << round;
  }
  EXPECT_GT(exchanged, 300);
}

}  // namespace
}  // namespace evermoe
