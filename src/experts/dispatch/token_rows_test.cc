#include "experts/dispatch/token_rows.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include <set>
#include "experts/dispatch/replica_buffers.h"

namespace evermoe {
namespace {

// The micro-batches of all lanes of a stage group, with experts drawn for every token.
struct RowExchange {
  ExpertPlacement placement;
  int64_t top_k;
  std::vector<std::vector<int64_t>> chosen;  // by lane: the expert of each choice
  std::vector<SendPlan> sends;

  RowExchange(std::mt19937& random, int lanes, int experts, int replicas, int64_t top)
      : placement(ExpertPlacement::uniform(experts, lanes, replicas)), top_k(top) {
    std::vector<int64_t> order(static_cast<size_t>(experts));
    std::iota(order.begin(), order.end(), 0);
    for (int lane = 0; lane < lanes; ++lane) {
      std::vector<int64_t> choices;
      for (auto tokens = random() % 30; tokens > 0; --tokens) {
        std::shuffle(order.begin(), order.end(), random);
        choices.insert(choices.end(), order.begin(), order.begin() + top);
      }
      chosen.push_back(std::move(choices));
    }
    std::vector<int64_t> tokens(static_cast<size_t>(lanes * experts), 0);
    for (int lane = 0; lane < lanes; ++lane) {
      for (const int64_t expert : chosen[static_cast<size_t>(lane)])
        ++tokens[static_cast<size_t>(lane * experts + expert)];
    }
    for (int lane = 0; lane < lanes; ++lane) {
      sends.push_back(
          plan_replica_send(chosen[static_cast<size_t>(lane)], lane, tokens, placement));
    }
  }
  int lanes() const { return placement.lane_count(); }
  ReceivePlan receive(int lane) const {
    std::vector<std::vector<int64_t>> counts;
    for (const SendPlan& send : sends) counts.push_back(send.counts[static_cast<size_t>(lane)]);
    return plan_receive(counts, lane, placement, 1);
  }
};

template <typename T>
std::vector<T> part(const std::vector<T>& all, const std::vector<int64_t>& sizes, int index) {
  const auto begin =
      all.begin() + std::accumulate(sizes.begin(), sizes.begin() + index, int64_t{0});
  return {begin, begin + sizes[static_cast<size_t>(index)]};
}

using Source = std::pair<int, int64_t>;  // lane, token
constexpr Source kZeros{-1, -1};

// What stands in each row of the expert layout if every choice travels as a row.
std::vector<Source> layout_of_choices(const RowExchange& exchange, int lane,
                                      const ReceivePlan& plan) {
  std::vector<Source> buffer;
  for (int from = 0; from < exchange.lanes(); ++from) {
    const SendPlan& send = exchange.sends[static_cast<size_t>(from)];
    for (const int64_t choice : part(send.choice_order, send.rows_to, lane))
      buffer.push_back({from, choice / exchange.top_k});
  }
  buffer.push_back(kZeros);
  std::vector<Source> layout;
  for (const int64_t row : plan.layout_source) layout.push_back(buffer[static_cast<size_t>(row)]);
  return layout;
}

// The same if rows and notes travel as planned.
std::vector<Source> layout_of_tokens(const RowExchange& exchange, int lane, const ReceivePlan& plan,
                                     const std::vector<TokenRows>& all, int64_t row_bytes) {
  std::vector<Source> buffer;
  std::vector<int64_t> rows_from;
  std::vector<std::vector<int64_t>> notes;
  const auto to = static_cast<size_t>(lane);
  for (int from = 0; from < exchange.lanes(); ++from) {
    const TokenRows& rows = all[static_cast<size_t>(from)];
    for (const int64_t token : part(rows.token_of_row, rows.message_rows_to, lane))
      buffer.push_back({from, token});
    rows_from.push_back(rows.rows_to[to]);
    notes.push_back(
        part(rows.row_of_choice, exchange.sends[static_cast<size_t>(from)].rows_to, lane));
  }
  buffer.push_back(kZeros);
  std::vector<Source> layout;
  for (const int64_t row : token_row_layout(plan, rows_from, notes, row_bytes))
    layout.push_back(buffer[static_cast<size_t>(row)]);
  return layout;
}

TEST(TokenRowsTest, TheExpertLayoutIsThatOfOneRowForEachChoice) {
  std::mt19937 random(12);
  int64_t choices = 0, rows = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const int lanes = 1 + static_cast<int>(random() % 4);
    const int experts = 1 + static_cast<int>(random() % 9);
    const auto top_k = static_cast<int64_t>(1 + random() % static_cast<unsigned>(experts));
    const RowExchange exchange(random, lanes, experts, 1 + static_cast<int>(random() % lanes),
                               top_k);
    const int64_t row_bytes = 4 << (random() % 8);
    std::vector<TokenRows> all;
    for (const SendPlan& send : exchange.sends)
      all.push_back(plan_token_rows(send, top_k, row_bytes));
    for (int lane = 0; lane < lanes; ++lane) {
      const ReceivePlan plan = exchange.receive(lane);
      ASSERT_EQ(layout_of_tokens(exchange, lane, plan, all, row_bytes),
                layout_of_choices(exchange, lane, plan));
      for (int from = 0; from < lanes; ++from) {
        const TokenRows& sent = all[static_cast<size_t>(from)];
        rows += sent.message_rows_to[static_cast<size_t>(lane)];
        choices += plan.rows_from[static_cast<size_t>(from)];
        ASSERT_LE(sent.message_rows_to[static_cast<size_t>(lane)],
                  plan.rows_from[static_cast<size_t>(from)])
            << "never more than before";
      }
    }
  }
  EXPECT_LT(static_cast<double>(rows), 0.8 * static_cast<double>(choices));
}

TEST(TokenRowsTest, ATokenTravelsOnceToALane) {
  std::mt19937 random(5);
  constexpr int64_t kRowBytes = 4096;
  const RowExchange exchange(random, 2, 8, 1, 4);
  for (const SendPlan& send : exchange.sends) {
    const TokenRows rows = plan_token_rows(send, 4, kRowBytes);
    for (int lane = 0; lane < 2; ++lane) {
      const auto choices = part(send.choice_order, send.rows_to, lane);
      std::set<int64_t> tokens;
      for (const int64_t choice : choices) tokens.insert(choice / 4);
      const auto at = static_cast<size_t>(lane);
      EXPECT_EQ(rows.rows_to[at], static_cast<int64_t>(tokens.size()));
      EXPECT_EQ(rows.message_rows_to[at],
                rows.rows_to[at] + note_rows(static_cast<int64_t>(choices.size()), kRowBytes));
    }
  }
}

TEST(TokenRowsTest, WhereNothingIsSavedEveryChoiceHasItsRowAndThereAreNoNotes) {
  std::mt19937 random(6);
  // Two experts on two lanes: no token has two of its choices on one lane.
  const RowExchange exchange(random, 2, 2, 1, 2);
  for (const SendPlan& send : exchange.sends) {
    const TokenRows rows = plan_token_rows(send, 2, 4096);
    EXPECT_EQ(rows.rows_to, send.rows_to);
    EXPECT_EQ(rows.message_rows_to, send.rows_to);
  }
  // Notes of 8 bytes cost more than rows of 4.
  const SendPlan send = plan_send(std::vector<int64_t>{0, 1, 0, 1},
                                  ExpertPlacement::uniform(/*experts=*/2, /*lane_count=*/1, 1));
  EXPECT_EQ(plan_token_rows(send, 2, 4).message_rows_to, send.rows_to);
  EXPECT_EQ(plan_token_rows(send, 2, 32).message_rows_to, std::vector<int64_t>{3});
}

}  // namespace
}  // namespace evermoe
