// One [[fault]] table of a script, whose errors say file, line, key, what was found and what is
// allowed.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace evermoe {

// "script.toml:3:9".
std::string script_place(const std::string& origin, const toml::source_region& region);
// What stands there, for an error: one short line.
std::string found_in_script(const toml::node& node);
// A key as an error may show it.
std::string shown_script_key(const std::string& key);

// Keeps references to both; they must live longer.
class FaultTable {
 public:
  FaultTable(const toml::table& table, const std::string& origin)
      : table_(table), origin_(origin) {}

  bool has(const std::string& key) const { return table_.contains(key); }
  // InvalidInput for the first key that is not in `known`.
  absl::Status check_keys(std::span<const char* const> known) const;
  // InvalidInput if there is such a key.
  absl::Status refuse(const std::string& key, const std::string& allowed) const;

  // The key's value; InvalidInput where it is missing, of another type, or not allowed.
  absl::StatusOr<int64_t> integer(const std::string& key, int64_t min, int64_t max) const;
  absl::StatusOr<double> number(const std::string& key, double min, double max) const;
  // `allowed` are words separated by ", ".
  absl::StatusOr<std::string> word(const std::string& key, const std::string& allowed) const;

  // InvalidInput: "place: fault.key: found X, allowed: Y"; at the table if there is no such key.
  absl::Status not_allowed(const std::string& key, const std::string& allowed) const;

 private:
  const toml::table& table_;
  const std::string& origin_;
};

}  // namespace evermoe
