// Which rows travel to the experts: a token that several experts of one lane chose travels there
// once. Pure, on host integers.
//
// On the way to the experts all choices of a token (dispatch_plan.h) have the same row, so one row
// for each token and lane is sent, and behind a lane's rows its *notes*: 8 bytes for each choice,
// in the send order of choices, that say which row it is or what to multiply the row by. Notes fill
// whole rows, so that a lane gets one message. Where rows and notes together would not be fewer
// than the choices, every choice has a row of its own and there are no notes; the receiver sees
// that from the number of rows. On the way back every choice has its own row: adding a token's rows
// on the expert's lane would change the order of additions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experts/dispatch/dispatch_plan.h"

namespace evermoe {

// Rows that the notes of so many choices fill.
int64_t note_rows(int64_t choices, int64_t row_bytes);

// Whether `choices` choices that travel as `rows` rows have notes.
inline bool has_notes(int64_t rows, int64_t choices) { return rows < choices; }

// Rows of the message: tokens' rows and those of the notes, if there are any.
int64_t message_rows(int64_t rows, int64_t choices, int64_t row_bytes);

struct TokenRows {
  std::vector<int64_t> rows_to;          // by lane, without notes
  std::vector<int64_t> message_rows_to;  // by lane, with them
  // Row of the send buffer (lanes' messages in order) -> token. A row of notes names any token.
  std::vector<int64_t> token_of_row;
  // Position in the send order of choices -> row among those of its lane: the notes.
  std::vector<int64_t> row_of_choice;
};

TokenRows plan_token_rows(const SendPlan& choices, int64_t top_k, int64_t row_bytes);

// Row of the expert layout -> row of the receive buffer (lanes' messages in order); padding rows
// name the row behind the last one, which the caller keeps zero. `rows_from`: by source lane,
// without notes; row_of_choice[lane]: its notes, ignored where there are none.
std::vector<int64_t> token_row_layout(const ReceivePlan& choices,
                                      std::span<const int64_t> rows_from,
                                      std::span<const std::vector<int64_t>> row_of_choice,
                                      int64_t row_bytes);

}  // namespace evermoe
