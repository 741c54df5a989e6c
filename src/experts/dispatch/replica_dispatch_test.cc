#include "experts/dispatch/replica_dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "experts/dispatch/replica_buffers.h"
#include "parallel/random_testing.h"

namespace evermoe {
namespace {

using Table = std::vector<std::vector<int64_t>>;  // [expert][rank]

// A problem and its tables.
struct Exchange {
  Table tokens, replicas;
  std::vector<int> host_of = {};

  int ranks() const { return static_cast<int>(tokens[0].size()); }
  int experts() const { return static_cast<int>(tokens.size()); }
  absl::StatusOr<ReplicaDispatch> dispatch() const {
    std::vector<int64_t> flat_tokens;
    std::vector<int> flat_replicas;
    for (int rank = 0; rank < ranks(); ++rank) {
      for (int expert = 0; expert < experts(); ++expert) {
        flat_tokens.push_back(tokens[expert][rank]);
        flat_replicas.push_back(static_cast<int>(replicas[expert][rank]));
      }
    }
    return ReplicaDispatch::create({.ranks = ranks(),
                                    .experts = experts(),
                                    .tokens = flat_tokens,
                                    .replicas = flat_replicas,
                                    .host_of = host_of});
  }
  // counts[expert][source][destination].
  std::vector<Table> counts() const {
    const auto made = dispatch();
    EXPECT_TRUE(made.ok()) << made.status();
    std::vector<Table> counts(experts(), Table(ranks(), std::vector<int64_t>(ranks(), 0)));
    for (const DispatchCell& cell : made->all())
      counts[cell.expert][cell.source][cell.destination] += cell.tokens;
    return counts;
  }
};

std::vector<int64_t> received(const Table& counts) {
  std::vector<int64_t> sums(counts.size(), 0);
  for (const auto& row : counts) {
    for (size_t j = 0; j < row.size(); ++j) sums[j] += row[j];
  }
  return sums;
}

TEST(ReplicaDispatchTest, WorkedExamples) {
  EXPECT_EQ((Exchange{{{5, 0, 2}}, {{1, 1, 1}}}.counts()[0]),
            (Table{{3, 2, 0}, {0, 0, 0}, {0, 0, 2}}));
  EXPECT_EQ((Exchange{{{10, 0, 1}}, {{0, 1, 2}}}.counts()[0]),
            (Table{{0, 4, 6}, {0, 0, 0}, {0, 0, 1}}));
  const auto two = Exchange{{{3, 3, 3}, {1, 0, 7}}, {{2, 1, 0}, {0, 1, 2}}}.counts();
  EXPECT_EQ(two[0], (Table{{3, 0, 0}, {0, 3, 0}, {3, 0, 0}}));
  EXPECT_EQ(two[1], (Table{{0, 1, 0}, {0, 0, 0}, {0, 1, 6}}));
}

TEST(ReplicaDispatchTest, WeightsSayWhichPartARankServes) {
  const Exchange exchange{{{100, 0, 1}}, {{0, 21845, 43691}}};
  EXPECT_EQ(received(exchange.counts()[0]), (std::vector<int64_t>{0, 34, 67}));
}

// Lane 0 has expert 1 for itself, so lane 1 serves most of expert 0, which both hold.
TEST(ReplicaDispatchTest, ABusyLaneLeavesTokensToTheOther) {
  const ExpertPlacement placement({{0, 1}, {0}}, 2);
  const std::vector<int64_t> chosen = {0, 0, 0, 0, 0, 0, 1, 1}, tokens = {6, 2, 2, 0};
  EXPECT_EQ(plan_replica_send(chosen, 0, tokens, placement).rows_to, (std::vector<int64_t>{5, 3}));
  // Where lanes are even every token stays where it is.
  const std::vector<int64_t> alike = {0, 0, 0, 1}, even = {3, 1, 1, 3};
  EXPECT_EQ(plan_replica_send(alike, 0, even, ExpertPlacement({{0, 1}, {0, 1}}, 2)).rows_to,
            (std::vector<int64_t>{4, 0}));
}

// 8 experts with a replica on each of ranks 0 .. 7 of 16; 9 tokens for each expert, all at rank 8.
// Without the rotation rank 0 would get what is over of every expert, 16 in all, and the others 8.
TEST(ReplicaDispatchTest, WhatIsOverDoesNotPileUp) {
  Exchange exchange;
  for (int expert = 0; expert < 8; ++expert) {
    exchange.tokens.push_back(std::vector<int64_t>(16, 0));
    exchange.tokens.back()[8] = 9;
    exchange.replicas.push_back(std::vector<int64_t>(16, 0));
    std::fill_n(exchange.replicas.back().begin(), 8, 1);
  }
  std::vector<int64_t> loads(16, 0);
  for (const Table& counts : exchange.counts()) {
    const auto sums = received(counts);
    for (int rank = 0; rank < 16; ++rank) loads[rank] += sums[rank];
  }
  for (int rank = 0; rank < 16; ++rank) EXPECT_EQ(loads[rank], rank < 8 ? 9 : 0);
}

// One token is over, and both rank 0 and rank 2 could serve one more of their own. Rank 0's host
// has room for it anyway, so giving it to rank 2 keeps all tokens on their hosts; in order of ranks
// one would leave.
TEST(ReplicaDispatchTest, WhatIsOverGoesWhereTheHostHasNoRoom) {
  const Exchange exchange{{{2, 0, 2}}, {{1, 1, 1}}, {0, 0, 1}};
  EXPECT_EQ(exchange.counts()[0], (Table{{1, 1, 0}, {0, 0, 0}, {0, 0, 2}}));
}

Exchange random_exchange(TestRandom& random, int ranks_max, int experts_max, int tokens_max,
                         bool with_hosts) {
  const int ranks = random.integer(1, ranks_max), experts = random.integer(1, experts_max);
  Exchange exchange;
  for (int expert = 0; expert < experts; ++expert) {
    auto& tokens = exchange.tokens.emplace_back();
    auto& replicas = exchange.replicas.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) {
      tokens.push_back(random.integer(0, 2) == 0 ? 0 : random.integer(0, tokens_max));
      replicas.push_back(random.integer(0, 1) == 0 ? 0 : random.integer(0, 3));
    }
    replicas[random.integer(0, ranks - 1)] += 1;
  }
  if (with_hosts) {
    const int hosts = random.integer(1, ranks);
    for (int rank = 0; rank < ranks; ++rank)
      exchange.host_of.push_back(random.integer(0, hosts - 1));
  }
  return exchange;
}

int64_t sum_of(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

struct Locality {
  int64_t own = 0;   // tokens served where they are
  int64_t host = 0;  // tokens served on their host
  friend auto operator<=>(const Locality&, const Locality&) = default;
};

// The best locality over all balanced shares: k t / r of each rank rounded down, and over ones
// anywhere, at most one where rounding took any.
Locality best_locality(const Exchange& exchange, int expert) {
  const auto& tokens = exchange.tokens[expert];
  const auto& replicas = exchange.replicas[expert];
  const int64_t r = sum_of(replicas), t = sum_of(tokens);
  Locality best;
  std::vector<int64_t> extra(tokens.size(), 0);
  std::function<void(size_t, int64_t)> choose = [&](size_t rank, int64_t over) {
    if (rank == tokens.size()) {
      if (over > 0) return;
      Locality locality;
      std::map<int, std::pair<int64_t, int64_t>> host;
      for (size_t j = 0; j < tokens.size(); ++j) {
        const int64_t capacity = t * replicas[j] / r + extra[j];
        locality.own += std::min(tokens[j], capacity);
        auto& [demand, room] =
            host[exchange.host_of.empty() ? static_cast<int>(j) : exchange.host_of[j]];
        demand += tokens[j];
        room += capacity;
      }
      for (const auto& [id, both] : host) locality.host += std::min(both.first, both.second);
      best = std::max(best, locality);
      return;
    }
    const int64_t more = t * replicas[rank] % r > 0 ? 1 : 0;
    for (extra[rank] = 0; extra[rank] <= std::min(over, more); ++extra[rank]) {
      choose(rank + 1, over - extra[rank]);
    }
    extra[rank] = 0;
  };
  int64_t over = t;
  for (const int64_t k : replicas) over -= t * k / r;
  choose(0, over);
  return best;
}

TEST(ReplicaDispatchTest, ConservesBalancesAndStaysAsLocalAsPossible) {
  TestRandom random(61);
  int64_t messages = 0, bound = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const Exchange exchange = random_exchange(random, 7, 4, 20, trial % 2 == 1);
    const auto counts = exchange.counts();
    for (int expert = 0; expert < exchange.experts(); ++expert) {
      const auto& tokens = exchange.tokens[expert];
      const auto& replicas = exchange.replicas[expert];
      const int64_t t = sum_of(tokens), r = sum_of(replicas);
      const auto sums = received(counts[expert]);
      Locality locality;
      int pairs = 0;
      for (int i = 0; i < exchange.ranks(); ++i) {
        ASSERT_EQ(sum_of(counts[expert][i]), tokens[i]) << "every token once";
        ASSERT_GE(sums[i], t * replicas[i] / r);
        ASSERT_LE(sums[i], (t * replicas[i] + r - 1) / r);
        for (int j = 0; j < exchange.ranks(); ++j) {
          const int64_t n = counts[expert][i][j];
          const bool one_host =
              exchange.host_of.empty() ? i == j : exchange.host_of[i] == exchange.host_of[j];
          locality.own += i == j ? n : 0;
          locality.host += one_host ? n : 0;
          pairs += n > 0;
        }
      }
      if (exchange.host_of.empty()) {
        ASSERT_LE(pairs, 2 * exchange.ranks() - 1);
      }
      messages += pairs;
      bound += 2 * exchange.ranks() - 1;
      const Locality best = best_locality(exchange, expert);
      ASSERT_EQ(locality.own, best.own) << "trial " << trial << " expert " << expert;
      ASSERT_EQ(locality.host, best.host) << "trial " << trial << " expert " << expert;
    }
  }
  EXPECT_LT(messages, bound);
}

TEST(ReplicaDispatchTest, EveryRankDerivesItsPartOfTheSameExchange) {
  TestRandom random(62);
  for (int trial = 0; trial < 500; ++trial) {
    const Exchange exchange = random_exchange(random, 9, 6, 40, trial % 2 == 0);
    const auto dispatch = exchange.dispatch();
    ASSERT_TRUE(dispatch.ok());
    const auto counts = exchange.counts();
    for (int rank = 0; rank < exchange.ranks(); ++rank) {
      const RankDispatch part = dispatch->of_rank(rank);
      ASSERT_TRUE(std::is_sorted(part.sends.begin(), part.sends.end()));
      ASSERT_TRUE(std::is_sorted(part.receives.begin(), part.receives.end()));
      std::map<int, int64_t> next;  // by expert: where its next run begins
      for (const TokenRun& run : part.sends) {
        ASSERT_GT(run.tokens, 0);
        ASSERT_EQ(counts[run.expert][rank][run.peer], run.tokens);
        ASSERT_EQ(run.first, next[run.expert]);
        next[run.expert] += run.tokens;
      }
      for (int expert = 0; expert < exchange.experts(); ++expert) {
        ASSERT_EQ(next[expert], exchange.tokens[expert][rank]);
      }
      std::vector<int64_t> got(exchange.experts(), 0);
      for (const TokenRun& run : part.receives) {
        ASSERT_EQ(counts[run.expert][run.peer][rank], run.tokens);
        got[run.expert] += run.tokens;
      }
      for (int expert = 0; expert < exchange.experts(); ++expert) {
        ASSERT_EQ(got[expert], received(counts[expert])[rank]);
      }
    }
  }
}

// Sends every choice's identity through the buffers of dispatch_plan.h.
TEST(ReplicaDispatchTest, EveryChoiceArrivesOnceAtAReplicaOfItsExpert) {
  TestRandom random(63);
  for (int trial = 0; trial < 300; ++trial) {
    Exchange exchange = random_exchange(random, 5, 6, 0, false);
    const int lanes = exchange.ranks(), experts = exchange.experts();
    std::vector<std::vector<int64_t>> chosen(lanes);
    for (int lane = 0; lane < lanes; ++lane) {
      chosen[lane].resize(random.integer(0, 30));
      for (int64_t& expert : chosen[lane]) {
        expert = random.integer(0, experts - 1);
        ++exchange.tokens[expert][lane];
      }
    }
    std::vector<std::vector<int>> lanes_of(experts);
    for (int expert = 0; expert < experts; ++expert) {
      for (int lane = 0; lane < lanes; ++lane) {
        if (exchange.replicas[expert][lane] > 0) lanes_of[expert].push_back(lane);
      }
    }
    const ExpertPlacement placement(lanes_of, lanes);
    const auto dispatch = exchange.dispatch();
    ASSERT_TRUE(dispatch.ok());
    std::vector<SendPlan> sends;
    for (int lane = 0; lane < lanes; ++lane) {
      sends.push_back(plan_replica_send(chosen[lane], dispatch->of_rank(lane), placement));
    }
    size_t arrived = 0, sent = 0;
    for (int lane = 0; lane < lanes; ++lane) {
      sent += chosen[lane].size();
      const auto counts = replica_receive_counts(dispatch->of_rank(lane), lane, placement);
      std::vector<std::pair<int, int64_t>> buffer;  // (source lane, choice)
      for (int source = 0; source < lanes; ++source) {
        ASSERT_EQ(counts[source], sends[source].counts[lane]) << "both ends agree";
        const auto& rows_to = sends[source].rows_to;
        const int64_t begin = std::accumulate(rows_to.begin(), rows_to.begin() + lane, int64_t{0});
        for (int64_t i = 0; i < rows_to[lane]; ++i)
          buffer.push_back({source, sends[source].choice_order[begin + i]});
      }
      const ReceivePlan plan = plan_receive(counts, lane, placement, 1);
      ASSERT_EQ(plan.received, static_cast<int64_t>(buffer.size()));
      for (const ExpertRows& rows : plan.experts) {
        std::pair<int, int64_t> last{-1, -1};
        for (int64_t i = 0; i < rows.rows; ++i) {
          const auto row = buffer[plan.layout_source[rows.begin + i]];
          ASSERT_EQ(chosen[row.first][row.second], rows.expert);
          ASSERT_LT(last, row);  // (source lane, choice) order
          last = row;
          ++arrived;
        }
      }
      for (size_t choice = 0; choice < chosen[lane].size(); ++choice) {
        ASSERT_EQ(sends[lane].choice_order[sends[lane].choice_position[choice]],
                  static_cast<int64_t>(choice));
      }
    }
    ASSERT_EQ(arrived, sent);
  }
}

TEST(ReplicaDispatchTest, RefusesInOneLine) {
  EXPECT_EQ((Exchange{{{0, 1}}, {{0, 0}}}.dispatch().status().message()),
            "expert 0 has 1 tokens and no replica");
  EXPECT_TRUE((Exchange{{{0, 0}}, {{0, 0}}}.dispatch().ok()));
  EXPECT_EQ((Exchange{{{0, -1}}, {{1, 0}}}.dispatch().status().message()),
            "rank 1, expert 0: -1 tokens, 0 replicas");
  EXPECT_EQ((Exchange{{{0, int64_t{1} << 41}}, {{1, 0}}}.dispatch().status().message()),
            "rank 1, expert 0: 2199023255552 tokens, 0 replicas");
  EXPECT_EQ((Exchange{{{0, 1}}, {{1, 0}}, {0}}.dispatch().status().message()),
            "1 hosts named for 2 ranks");
  EXPECT_EQ((Exchange{{{0, 1}}, {{1, 0}}, {0, 2}}.dispatch().status().message()),
            "host 2 of 2 ranks");
  EXPECT_EQ(ReplicaDispatch::create({.ranks = 2, .experts = 1}).status().message(),
            "tables of 0 and 0 entries for 2 ranks and 1 experts");
}

}  // namespace
}  // namespace evermoe
