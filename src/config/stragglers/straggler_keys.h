// The table [stragglers]: roles that compute slower than others, and slow links
// (docs/stragglers.md).
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "config/config_key.h"
#include "config/validate_config.h"

namespace evermoe {

// In the order of the documentation.
std::vector<ConfigKey> straggler_keys();

// What the keys say together with others. InvalidInput.
absl::Status validate_stragglers(const JobConfig& config, const KeyPlaces& places);

}  // namespace evermoe
