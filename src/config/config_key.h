// The keys of the configuration, as one table: parsing, to_toml(), the identities and
// docs/configuration.md all come from it, so none of them can forget a key.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "config/job_config.h"

namespace evermoe {

// A value as it was found, without the TOML library's types.
struct FoundValue {
  // monostate: something no key accepts, such as a date or a table.
  std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>> value;
  std::string text;  // how an error shows it, one line: `"abc"`, `3`, `a table`
};

// What a key's value determines.
enum class KeyScope {
  kRun,    // only how the job is run
  kBits,   // the bits of training; may change when a checkpoint is continued
  kModel,  // the model or the data order; must not change when a checkpoint is continued
};

// In which order keys apply: a preset replaces the whole shape, a style some of it.
enum class KeyPhase { kPreset, kStyle, kOther };

struct ConfigKey {
  std::string name;     // "train.steps"
  std::string allowed;  // "integer from 1 to 1000000000"
  std::string meaning;  // one line for the reader of docs/configuration.md
  KeyScope scope = KeyScope::kRun;
  KeyPhase phase = KeyPhase::kOther;
  bool is_text = false;  // settings are taken literally
  bool is_path = false;  // relative ones are resolved before read()
  // Stores the value; false if it is not allowed.
  std::function<bool(const FoundValue&, JobConfig&)> read = nullptr;
  // The value as TOML; empty for a key that is not part of the result (model.preset).
  std::function<std::string(const JobConfig&)> write = nullptr;
};

// All keys, grouped by table, in the order of the documentation. Lives for ever.
const std::vector<ConfigKey>& config_keys();
const ConfigKey* find_config_key(const std::string& name);
// The known key that was probably meant, or empty.
std::string nearest_config_key(const std::string& name);
// The tables in order: "model", "train", ...
std::vector<std::string> config_tables();

// docs/configuration.md.
std::string config_keys_as_markdown();

// Text as a TOML basic string, quotes included; always one line.
std::string quoted(const std::string& text);

}  // namespace evermoe
