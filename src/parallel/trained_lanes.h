// On how many lanes of each stage a job has trained, from which state on: with the configuration
// and the seed all that decides on its bits. A part of the training position, so every checkpoint
// says how it came to be. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "parallel/topology.h"

namespace evermoe {

struct TrainedLanes {
  Step step;               // the state from which on
  std::vector<int> lanes;  // that trained, of each stage
  friend bool operator==(const TrainedLanes&, const TrainedLanes&) = default;
};
// Ascending by step; none has the lanes of the one before. If the first is of a later state than 0
// nothing is known of those before it.
using TrainedOn = std::vector<TrainedLanes>;
inline constexpr size_t kTrainedOnMax = 4096;  // the newest are kept

// The widths of stages.
std::vector<int> widths_of(const Topology& lanes);
// A step is trained from the state at `from`, to which `trained_on` leads.
void note_step(Step from, const Topology& lanes, TrainedOn& trained_on);

// For a position between ranks of a job; nullopt: no such numbers.
std::vector<int64_t> to_numbers(const TrainedOn& trained_on);
std::optional<TrainedOn> trained_on_from(std::span<const int64_t> numbers);

}  // namespace evermoe
