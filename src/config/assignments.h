// What a configuration text or a list of settings says, before anybody asks whether it is allowed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/config_key.h"

namespace evermoe {

struct Assignment {
  const ConfigKey* key = nullptr;
  FoundValue value;
  std::string where;  // "job.toml:3:9" or "--set train.steps=x"
};

// Assignments of a TOML text in order. InvalidInput for bad TOML, unknown tables and unknown keys.
absl::StatusOr<std::vector<Assignment>> parse_assignments(const std::string& text,
                                                          const std::string& origin);
// The same for "key=value" settings, where the value is TOML or plain text.
absl::StatusOr<std::vector<Assignment>> parse_settings(const std::vector<std::string>& settings);

}  // namespace evermoe
