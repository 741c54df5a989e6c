// How the table of keys is written down: one builder for each kind of value.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config_key.h"

namespace evermoe {

// Where a key's value lies in JobConfig.
template <typename Table, typename Value>
struct Field {
  Table JobConfig::*table;
  Value Table::*member;
  Value& in(JobConfig& config) const { return config.*table.*member; }
  const Value& in(const JobConfig& config) const { return config.*table.*member; }
};
template <typename Table, typename Value>
Field(Table JobConfig::*, Value Table::*) -> Field<Table, Value>;

struct IntegerRange {
  int64_t min = 0;
  int64_t max = std::numeric_limits<int64_t>::max();
  int64_t multiple_of = 1;

  bool contains(int64_t value) const {
    return min <= value && value <= max && value % multiple_of == 0;
  }
  std::string to_string() const;
};

struct NumberRange {
  double min = 0;
  double max = 0;
  bool min_open = false;
  bool max_open = false;

  bool contains(double value) const;  // false for nan
  std::string to_string() const;
};

std::string number_to_toml(double value);
bool read_number(const FoundValue& found, double& into);

template <typename Table, typename Value>
ConfigKey integer_key(std::string name, Field<Table, Value> field, IntegerRange range,
                      KeyScope scope, std::string meaning) {
  ConfigKey key{std::move(name), range.to_string(), std::move(meaning), scope};
  key.read = [=](const FoundValue& found, JobConfig& config) {
    const int64_t* value = std::get_if<int64_t>(&found.value);
    if (value == nullptr || !range.contains(*value)) return false;
    field.in(config) = static_cast<Value>(*value);
    return true;
  };
  key.write = [=](const JobConfig& config) { return std::to_string(field.in(config)); };
  return key;
}

template <typename Table>
ConfigKey number_key(std::string name, Field<Table, double> field, NumberRange range,
                     KeyScope scope, std::string meaning) {
  ConfigKey key{std::move(name), range.to_string(), std::move(meaning), scope};
  key.read = [=](const FoundValue& found, JobConfig& config) {
    double value = 0;
    if (!read_number(found, value) || !range.contains(value)) return false;
    field.in(config) = value;
    return true;
  };
  key.write = [=](const JobConfig& config) { return number_to_toml(field.in(config)); };
  return key;
}

// Amounts of bytes: a TOML integer, or text with a unit such as "1.5GiB".
struct ByteRange {
  int64_t min = 0;
  int64_t max = 0;

  bool contains(int64_t value) const { return min <= value && value <= max; }
  std::string to_string() const;
};

// Decimal digits, perhaps with a fraction, then B, KiB, MiB, GiB or TiB; at most one space between.
// Parts of a byte are dropped. Nothing for other text, and beyond 2^62 bytes.
std::optional<int64_t> bytes_of_text(const std::string& text);
std::optional<int64_t> read_bytes(const FoundValue& found);
// In the largest unit of which it is a whole number: `"512MiB"`, `1000`.
std::string bytes_to_toml(int64_t bytes);

template <typename Table>
ConfigKey bytes_key(std::string name, Field<Table, int64_t> field, ByteRange range, KeyScope scope,
                    std::string meaning) {
  ConfigKey key{std::move(name), range.to_string(), std::move(meaning), scope};
  key.read = [=](const FoundValue& found, JobConfig& config) {
    const std::optional<int64_t> value = read_bytes(found);
    if (!value || !range.contains(*value)) return false;
    field.in(config) = *value;
    return true;
  };
  key.write = [=](const JobConfig& config) { return bytes_to_toml(field.in(config)); };
  return key;
}

// An integer, or a word that stands for one the job finds out: 0 in JobConfig.
// REQUIRES: range.min >= 1.
template <typename Table>
ConfigKey word_or_integer_key(std::string name, Field<Table, int64_t> field, std::string word,
                              IntegerRange range, KeyScope scope, std::string meaning) {
  ConfigKey key{std::move(name), word + ", or " + range.to_string(), std::move(meaning), scope};
  key.read = [=](const FoundValue& found, JobConfig& config) {
    const std::string* text = std::get_if<std::string>(&found.value);
    const int64_t* value = std::get_if<int64_t>(&found.value);
    const bool allowed =
        text != nullptr ? *text == word : value != nullptr && range.contains(*value);
    if (allowed) field.in(config) = text != nullptr ? 0 : *value;
    return allowed;
  };
  key.write = [=](const JobConfig& config) {
    return field.in(config) == 0 ? quoted(word) : std::to_string(field.in(config));
  };
  return key;
}

// An integer, or "auto" for one that is chosen when the job runs.
template <typename Table>
ConfigKey auto_integer_key(std::string name, Field<Table, int64_t> field, IntegerRange range,
                           KeyScope scope, std::string meaning) {
  return word_or_integer_key(std::move(name), field, "auto", range, scope, std::move(meaning));
}

// The same for an amount of bytes.
// REQUIRES: range.min >= 1.
template <typename Table>
ConfigKey auto_bytes_key(std::string name, Field<Table, int64_t> field, ByteRange range,
                         KeyScope scope, std::string meaning) {
  ConfigKey key{std::move(name), "auto, or " + range.to_string(), std::move(meaning), scope};
  key.read = [=](const FoundValue& found, JobConfig& config) {
    const std::string* word = std::get_if<std::string>(&found.value);
    const bool is_auto = word != nullptr && *word == "auto";
    const std::optional<int64_t> value = is_auto ? std::optional<int64_t>(0) : read_bytes(found);
    if (!value || (!is_auto && !range.contains(*value))) return false;
    field.in(config) = *value;
    return true;
  };
  key.write = [=](const JobConfig& config) {
    return field.in(config) == 0 ? quoted("auto") : bytes_to_toml(field.in(config));
  };
  return key;
}

template <typename Table>
ConfigKey bool_key(std::string name, Field<Table, bool> field, KeyScope scope,
                   std::string meaning) {
  ConfigKey key{std::move(name), "true or false", std::move(meaning), scope};
  key.read = [=](const FoundValue& found, JobConfig& config) {
    const bool* value = std::get_if<bool>(&found.value);
    if (value == nullptr) return false;
    field.in(config) = *value;
    return true;
  };
  key.write = [=](const JobConfig& config) { return field.in(config) ? "true" : "false"; };
  return key;
}

// A choice between words, each standing for a value.
template <typename Table, typename Value>
ConfigKey choice_key(std::string name, Field<Table, Value> field,
                     std::vector<std::pair<std::string, Value>> choices, KeyScope scope,
                     std::string meaning) {
  std::string allowed;
  for (const auto& [word, value] : choices) allowed += (allowed.empty() ? "" : ", ") + word;
  ConfigKey key{std::move(name), allowed, std::move(meaning), scope};
  key.is_text = true;
  key.read = [=](const FoundValue& found, JobConfig& config) {
    const std::string* text = std::get_if<std::string>(&found.value);
    for (const auto& [word, value] : choices) {
      if (text == nullptr || *text != word) continue;
      field.in(config) = value;
      return true;
    }
    return false;
  };
  key.write = [=](const JobConfig& config) -> std::string {
    for (const auto& [word, value] : choices) {
      if (value == field.in(config)) return quoted(word);
    }
    return "";
  };
  return key;
}

// Text that names a file; empty where `allowed` says so.
template <typename Table>
ConfigKey path_key(std::string name, Field<Table, std::string> field, std::string allowed,
                   bool (*is_allowed)(const std::string&), KeyScope scope, std::string meaning) {
  ConfigKey key{std::move(name), std::move(allowed), std::move(meaning), scope};
  key.is_text = true;
  key.is_path = true;
  key.read = [=](const FoundValue& found, JobConfig& config) {
    const std::string* text = std::get_if<std::string>(&found.value);
    if (text == nullptr || !is_allowed(*text)) return false;
    field.in(config) = *text;
    return true;
  };
  key.write = [=](const JobConfig& config) { return quoted(field.in(config)); };
  return key;
}

}  // namespace evermoe
