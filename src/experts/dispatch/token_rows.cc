#include "experts/dispatch/token_rows.h"

#include <algorithm>

#include "base/check.h"

namespace evermoe {
namespace {

constexpr int64_t kNoteBytes = 8;

// The tokens of one lane's choices, each once, in the order in which the choices first name them.
struct OfOneLane {
  std::vector<int64_t> tokens;
  std::vector<int64_t> row_of_choice;
};

OfOneLane each_once(std::span<const int64_t> choices, int64_t top_k, std::vector<int64_t>& row_of) {
  OfOneLane lane;
  for (const int64_t choice : choices) {
    int64_t& row = row_of[static_cast<size_t>(choice / top_k)];
    if (row < 0) {
      row = static_cast<int64_t>(lane.tokens.size());
      lane.tokens.push_back(choice / top_k);
    }
    lane.row_of_choice.push_back(row);
  }
  for (const int64_t token : lane.tokens) row_of[static_cast<size_t>(token)] = -1;
  return lane;
}

OfOneLane one_for_each_choice(std::span<const int64_t> choices, int64_t top_k) {
  OfOneLane lane;
  for (const int64_t choice : choices) {
    lane.row_of_choice.push_back(static_cast<int64_t>(lane.tokens.size()));
    lane.tokens.push_back(choice / top_k);
  }
  return lane;
}

}  // namespace

int64_t note_rows(int64_t choices, int64_t row_bytes) {
  return (choices * kNoteBytes + row_bytes - 1) / row_bytes;
}

int64_t message_rows(int64_t rows, int64_t choices, int64_t row_bytes) {
  return rows + (has_notes(rows, choices) ? note_rows(choices, row_bytes) : 0);
}

TokenRows plan_token_rows(const SendPlan& choices, int64_t top_k, int64_t row_bytes) {
  TokenRows plan;
  const auto token_count = (static_cast<int64_t>(choices.choice_order.size()) + top_k - 1) / top_k;
  std::vector<int64_t> row_of(static_cast<size_t>(token_count), -1);  // by token; -1: none
  std::span<const int64_t> rest = choices.choice_order;
  for (const int64_t count : choices.rows_to) {
    const auto of_lane = rest.first(static_cast<size_t>(count));
    rest = rest.subspan(of_lane.size());
    OfOneLane lane = each_once(of_lane, top_k, row_of);
    auto rows = static_cast<int64_t>(lane.tokens.size());
    if (message_rows(rows, count, row_bytes) >= count) {
      lane = one_for_each_choice(of_lane, top_k);
      rows = count;
    }
    plan.rows_to.push_back(rows);
    plan.message_rows_to.push_back(message_rows(rows, count, row_bytes));
    lane.tokens.resize(static_cast<size_t>(plan.message_rows_to.back()), 0);
    plan.token_of_row.insert(plan.token_of_row.end(), lane.tokens.begin(), lane.tokens.end());
    plan.row_of_choice.insert(plan.row_of_choice.end(), lane.row_of_choice.begin(),
                              lane.row_of_choice.end());
  }
  return plan;
}

std::vector<int64_t> token_row_layout(const ReceivePlan& choices,
                                      std::span<const int64_t> rows_from,
                                      std::span<const std::vector<int64_t>> row_of_choice,
                                      int64_t row_bytes) {
  std::vector<int64_t>
      row_of;  // row of the buffer with a row for each choice -> of that with tokens
  int64_t begin = 0;
  for (size_t lane = 0; lane < rows_from.size(); ++lane) {
    const int64_t count = choices.rows_from[lane];
    const bool by_note = has_notes(rows_from[lane], count);
    CHECK(!by_note || static_cast<int64_t>(row_of_choice[lane].size()) == count);
    for (int64_t choice = 0; choice < count; ++choice) {
      const int64_t row = by_note ? row_of_choice[lane][static_cast<size_t>(choice)] : choice;
      CHECK(row >= 0 && row < rows_from[lane]) << "row " << row << " of lane " << lane;
      row_of.push_back(begin + row);
    }
    begin += message_rows(rows_from[lane], count, row_bytes);
  }
  row_of.push_back(begin);  // the zero row
  std::vector<int64_t> layout;
  layout.reserve(choices.layout_source.size());
  for (const int64_t source : choices.layout_source)
    layout.push_back(row_of[static_cast<size_t>(source)]);
  return layout;
}

}  // namespace evermoe
