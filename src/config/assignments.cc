#include "config/assignments.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "config/key_builders.h"
#include "toml/toml_text.h"

namespace evermoe {
namespace {

// Errors stay one readable line whatever was written.
constexpr size_t kShownTextMax = 80;

std::string shortened(std::string text) {
  if (text.size() <= kShownTextMax) return text;
  size_t end = kShownTextMax;
  // Not in the middle of a UTF-8 character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

// A key as it may be shown: bare where TOML lets it be bare.
std::string shown_key(const std::string& name) {
  const bool bare = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.';
  });
  return shortened(bare ? name : quoted(name));
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  return text;
}

std::string place(const std::string& origin, const toml::source_position& position) {
  return absl::StrCat(origin, ":", position.line, ":", position.column);
}

std::string text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return shortened(quoted(text->get()));
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  // The library shows 1.9 as 1.8999999999999999.
  if (const auto* value = node.as_floating_point();
      value != nullptr && std::isfinite(value->get())) {
    return number_to_toml(value->get());
  }
  if (node.is_table()) return "a table";
  if (const auto* array = node.as_array()) {
    return absl::StrCat("an array of ", array->size());
  }
  std::ostringstream out;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_value<decltype(value)>) out << value;
  });
  return out.str();
}

std::string text_of_integers(const std::vector<int64_t>& values) {
  return shortened(absl::StrCat("[", absl::StrJoin(values, ", "), "]"));
}

FoundValue value_of(const toml::node& node) {
  FoundValue found;
  found.text = text_of(node);
  if (const auto* value = node.as_boolean()) found.value = value->get();
  if (const auto* value = node.as_integer()) found.value = value->get();
  if (const auto* value = node.as_floating_point()) found.value = value->get();
  if (const auto* value = node.as_string()) found.value = value->get();
  if (const auto* array = node.as_array()) {
    std::vector<int64_t> integers;
    for (const toml::node& element : *array) {
      if (const auto* integer = element.as_integer()) integers.push_back(integer->get());
    }
    if (integers.size() == array->size()) {
      found.text = text_of_integers(integers);
      found.value = std::move(integers);
    }
  }
  return found;
}

absl::Status unknown_key(const std::string& where, const std::string& name) {
  const std::string nearest = nearest_config_key(name);
  return InvalidInput(absl::StrCat(where, ": ", shown_key(name), ": unknown key, ",
                                   nearest.empty() ? "allowed: those of `evermoe config --keys`"
                                                   : absl::StrCat("did you mean ", nearest, "?")));
}

absl::StatusOr<Assignment> assignment(const std::string& name, const toml::node& node,
                                      const std::string& where) {
  const ConfigKey* key = find_config_key(name);
  if (key == nullptr) return unknown_key(where, name);
  return Assignment{key, value_of(node), where};
}

absl::Status add_table(const std::string& table_name, const toml::table& table,
                       const std::string& origin, std::vector<Assignment>& into) {
  for (const auto& [key, node] : table) {
    ASSIGN_OR_RETURN(Assignment next,
                     assignment(absl::StrCat(table_name, ".", std::string(key.str())), node,
                                place(origin, key.source().begin)));
    into.push_back(std::move(next));
  }
  return absl::OkStatus();
}

// `v = TEXT`, or nothing if TEXT is not one TOML value.
std::optional<toml::table> toml_value(const std::string& text) {
  if (text.find('\n') != std::string::npos) return std::nullopt;
  absl::StatusOr<toml::table> table = parse_toml(absl::StrCat("v = ", text), "");
  if (!table.ok()) return std::nullopt;
  return *std::move(table);
}

absl::StatusOr<FoundValue> value_of_setting(const ConfigKey& key, const std::string& text,
                                            const std::string& where) {
  std::optional<toml::table> table = toml_value(text);
  // For a key that wants text, `5` and `true` are text too; only quotes are TOML's.
  const bool is_string = table && table->get("v")->is_string();
  if (table && (is_string || !key.is_text)) return value_of(*table->get("v"));
  table = toml_value(quoted(text));
  if (!table) {
    return InvalidInput(absl::StrCat(where, ": ", key.name, ": the value is not UTF-8 text"));
  }
  return value_of(*table->get("v"));
}

}  // namespace

absl::StatusOr<std::vector<Assignment>> parse_assignments(const std::string& text,
                                                          const std::string& origin) {
  ASSIGN_OR_RETURN(const toml::table document, parse_toml(text, origin));
  const std::vector<std::string> tables = config_tables();
  std::vector<Assignment> result;
  for (const auto& [key, node] : document) {
    const std::string name(key.str());
    const std::string where = place(origin, key.source().begin);
    const bool known = std::find(tables.begin(), tables.end(), name) != tables.end();
    if (known && node.is_table()) {
      RETURN_IF_ERROR(add_table(name, *node.as_table(), origin, result));
    } else if (known) {
      return InvalidInput(
          absl::StrCat(where, ": ", name, ": found ", text_of(node), ", allowed: a table"));
    } else if (node.is_table()) {
      return InvalidInput(absl::StrCat(where, ": ", shown_key(name),
                                       ": unknown table, allowed: ", absl::StrJoin(tables, ", ")));
    } else {
      return unknown_key(where, name);
    }
  }
  return result;
}

absl::StatusOr<std::vector<Assignment>> parse_settings(const std::vector<std::string>& settings) {
  std::vector<Assignment> result;
  for (const std::string& setting : settings) {
    const std::string where = absl::StrCat("--set ", shortened(one_line(setting)));
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      return InvalidInput(absl::StrCat(where, ": found no \"=\", allowed: key=value"));
    }
    const std::string name = setting.substr(0, equals);
    const ConfigKey* key = find_config_key(name);
    if (key == nullptr) return unknown_key(where, name);
    ASSIGN_OR_RETURN(FoundValue value, value_of_setting(*key, setting.substr(equals + 1), where));
    result.push_back({key, std::move(value), where});
  }
  return result;
}

}  // namespace evermoe
