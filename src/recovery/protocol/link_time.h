// How long messages from one rank to another one take, which tells the controller which links are
// slow.
#pragma once

#include <cstddef>

#include "absl/time/time.h"
#include "base/ids.h"

namespace evermoe {

// One measurement, by the rank that sends.
struct LinkTime {
  Rank to;
  absl::Duration round_trip;  // until an empty message there has been answered
  absl::Duration bulk;        // the same of a large one, whose answer is empty
  // What was sent there in a second since the measurement before: messages, and how many large ones
  // their bytes would have been.
  double messages = 0, bulks = 0;
  friend bool operator==(const LinkTime&, const LinkTime&) = default;
};

// As many of a rank are kept, or travel in one message: more than are measured between two signs of
// life.
inline constexpr size_t kLinkTimesMax = 64;

}  // namespace evermoe
