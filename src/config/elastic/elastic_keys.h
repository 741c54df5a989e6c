// The table [elastic]: jobs whose lanes train and rest (docs/elastic.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config_key.h"
#include "config/validate_config.h"

namespace evermoe {

// In the order of the documentation.
std::vector<ConfigKey> elastic_keys();

// From the state at `step` on, so many lanes of each stage train.
struct LaneHistoryEntry {
  int64_t step = 0;
  std::vector<int> lanes;
  friend bool operator==(const LaneHistoryEntry&, const LaneHistoryEntry&) = default;
};
// "12 2 3, 30 3 3": a step, from 0 on, and a number for each stage, steps ascending; empty text:
// none. nullopt: another text.
std::optional<std::vector<LaneHistoryEntry>> parse_lane_history(const std::string& text);
// Of a configuration that was read.
std::vector<LaneHistoryEntry> lane_history_of(const JobConfig& config);

// What the keys say together with others. InvalidInput.
absl::Status validate_elastic(const JobConfig& config, const KeyPlaces& places);

}  // namespace evermoe
