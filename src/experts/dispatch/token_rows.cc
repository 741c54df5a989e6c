#include "experts/dispatch/token_rows.h"

#include <algorithm>

#include "base/check.h"

namespace evermoe {
namespace {

constexpr int64_t kNoteBytes = 8;

// The tokens of one lane's slots, each once, in the order in which the slots first name them.
struct OfOneLane {
  std::vector<int64_t> tokens;
  std::vector<int64_t> row_of_slot;
};

OfOneLane each_once(std::span<const int64_t> slots, int64_t top_k, std::vector<int64_t>& row_of) {
  OfOneLane lane;
  for (const int64_t slot : slots) {
    int64_t& row = row_of[static_cast<size_t>(slot / top_k)];
    if (row < 0) {
      row = static_cast<int64_t>(lane.tokens.size());
      lane.tokens.push_back(slot / top_k);
    }
    lane.row_of_slot.push_back(row);
  }
  for (const int64_t token : lane.tokens) row_of[static_cast<size_t>(token)] = -1;
  return lane;
}

OfOneLane one_for_each_slot(std::span<const int64_t> slots, int64_t top_k) {
  OfOneLane lane;
  for (const int64_t slot : slots) {
    lane.row_of_slot.push_back(static_cast<int64_t>(lane.tokens.size()));
    lane.tokens.push_back(slot / top_k);
  }
  return lane;
}

}  // namespace

int64_t note_rows(int64_t slots, int64_t row_bytes) {
  return (slots * kNoteBytes + row_bytes - 1) / row_bytes;
}

int64_t message_rows(int64_t rows, int64_t slots, int64_t row_bytes) {
  return rows + (has_notes(rows, slots) ? note_rows(slots, row_bytes) : 0);
}

TokenRows plan_token_rows(const SendPlan& slots, int64_t top_k, int64_t row_bytes) {
  TokenRows plan;
  const auto token_count = (static_cast<int64_t>(slots.slot_order.size()) + top_k - 1) / top_k;
  std::vector<int64_t> row_of(static_cast<size_t>(token_count), -1);  // by token; -1: none
  std::span<const int64_t> rest = slots.slot_order;
  for (const int64_t count : slots.rows_to) {
    const auto of_lane = rest.first(static_cast<size_t>(count));
    rest = rest.subspan(of_lane.size());
    OfOneLane lane = each_once(of_lane, top_k, row_of);
    auto rows = static_cast<int64_t>(lane.tokens.size());
    if (message_rows(rows, count, row_bytes) >= count) {
      lane = one_for_each_slot(of_lane, top_k);
      rows = count;
    }
    plan.rows_to.push_back(rows);
    plan.message_rows_to.push_back(message_rows(rows, count, row_bytes));
    lane.tokens.resize(static_cast<size_t>(plan.message_rows_to.back()), 0);
    plan.token_of_row.insert(plan.token_of_row.end(), lane.tokens.begin(), lane.tokens.end());
    plan.row_of_slot.insert(plan.row_of_slot.end(), lane.row_of_slot.begin(),
                            lane.row_of_slot.end());
  }
  return plan;
}

std::vector<int64_t> token_row_layout(const ReceivePlan& slots, std::span<const int64_t> rows_from,
                                      std::span<const std::vector<int64_t>> row_of_slot,
                                      int64_t row_bytes) {
  std::vector<int64_t> row_of;  // row of the buffer with a row for each slot -> of that with tokens
  int64_t begin = 0;
  for (size_t lane = 0; lane < rows_from.size(); ++lane) {
    const int64_t count = slots.rows_from[lane];
    const bool by_note = has_notes(rows_from[lane], count);
    CHECK(!by_note || static_cast<int64_t>(row_of_slot[lane].size()) == count);
    for (int64_t slot = 0; slot < count; ++slot) {
      const int64_t row = by_note ? row_of_slot[lane][static_cast<size_t>(slot)] : slot;
      CHECK(row >= 0 && row < rows_from[lane]) << "row " << row << " of lane " << lane;
      row_of.push_back(begin + row);
    }
    begin += message_rows(rows_from[lane], count, row_bytes);
  }
  row_of.push_back(begin);  // the zero row
  std::vector<int64_t> layout;
  layout.reserve(slots.layout_source.size());
  for (const int64_t source : slots.layout_source)
    layout.push_back(row_of[static_cast<size_t>(source)]);
  return layout;
}

}  // namespace evermoe
