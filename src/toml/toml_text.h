// TOML as all its readers take it, and what they say of a text alike: one line "origin:line: ...".
#pragma once

#include <toml++/toml.h>

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace evermoe {

// InvalidInput "origin:line:column: not TOML: why".
absl::StatusOr<toml::table> parse_toml(const std::string& text, const std::string& origin);

// What stands there, for an error: one short line; "nothing" for nullptr.
std::string found_in_toml(const toml::node* node);

// InvalidInput "origin:line: found PREFIXkey, allowed: ..." for the first key that is not known.
absl::Status check_toml_keys(const toml::table& table, const std::string& origin,
                             const std::string& prefix, const std::set<std::string>& known);

}  // namespace evermoe
