// The table [experts]: where experts live inside their stages (docs/experts.md).
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "config/config_key.h"
#include "config/validate_config.h"

namespace evermoe {

// In the order of the documentation.
std::vector<ConfigKey> experts_keys();

// What the keys say together with others. InvalidInput.
absl::Status validate_experts(const JobConfig& config, const KeyPlaces& places);

}  // namespace evermoe
