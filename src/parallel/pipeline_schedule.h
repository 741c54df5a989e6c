// In which order each stage runs the forward and backward rounds of one step: 1F1B, generalised to
// rounds and to stages of different widths.
//
// A round of a stage is the set of micro-batches its lanes run at the same time: round r of a stage
// with w lanes runs micro-batches r w, ..., r w + w - 1 (those that exist), lane l the l-th of
// them. All lanes of a stage follow the same order, so that expert all-to-all meets.
//
// The orders are taken from one simulated run of the whole pipeline. They are therefore free of
// deadlock by construction, provided that sends do not block: executing the operations in the
// simulated global sequence never waits for something later.
#pragma once

#include <cstdint>
#include <vector>

namespace evermoe {

struct RoundOperation {
  enum class Kind : uint8_t { kForward, kBackward };
  Kind kind = Kind::kForward;
  int round = 0;
  friend bool operator==(const RoundOperation&, const RoundOperation&) = default;
};

inline int round_count(int width, int micro_batches) { return (micro_batches + width - 1) / width; }

// The operations of every stage, in order, for one step.
// In-flight limit: stage s starts no new forward round while it holds the activations of as many
// micro-batches as can be on their way in it and the stages behind it (for equal widths S - s
// rounds, as in 1F1B), unless the pipeline could not go on otherwise.
// REQUIRES: at least one stage, all widths >= 1, micro_batches >= 1.
std::vector<std::vector<RoundOperation>> pipeline_schedule(const std::vector<int>& widths,
                                                           int micro_batches);

// The largest number of rounds whose activations a stage holds at once under its order.
int rounds_in_flight_max(const std::vector<RoundOperation>& order);

}  // namespace evermoe
