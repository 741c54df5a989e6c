#include "faults/fault_table.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"

namespace evermoe {
namespace {

// Errors stay one readable line whatever was written.
constexpr size_t kShownTextMax = 80;

std::string shortened(const std::string& text) {
  if (text.size() <= kShownTextMax) return text;
  size_t end = kShownTextMax;
  // Not in the middle of a UTF-8 character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string quoted_text(const std::string& text) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(shortened(text)), "\"");
}

}  // namespace

std::string script_place(const std::string& origin, const toml::source_region& region) {
  return absl::StrCat(origin, ":", region.begin.line, ":", region.begin.column);
}

std::string found_in_script(const toml::node& node) {
  if (const auto* text = node.as_string()) return quoted_text(text->get());
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  if (const auto* value = node.as_floating_point()) return absl::StrCat(value->get());
  if (const auto* array = node.as_array()) return absl::StrCat("an array of ", array->size());
  if (node.is_table()) return "a table";
  std::ostringstream out;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_value<decltype(value)>) out << value;
  });
  return out.str();
}

std::string shown_script_key(const std::string& key) {
  const bool is_bare = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-';
  });
  return is_bare ? shortened(key) : quoted_text(key);
}

absl::Status FaultTable::not_allowed(const std::string& key, const std::string& allowed) const {
  const auto found = table_.find(key);
  const bool is_missing = found == table_.end();
  return InvalidInput(absl::StrCat(
      script_place(origin_, is_missing ? table_.source() : found->first.source()), ": fault.", key,
      ": found ", is_missing ? "nothing" : found_in_script(found->second), ", allowed: ", allowed));
}

absl::Status FaultTable::check_keys(std::span<const char* const> known) const {
  for (const auto& [key, node] : table_) {
    if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
    return InvalidInput(absl::StrCat(script_place(origin_, key.source()), ": fault.",
                                     shown_script_key(std::string(key.str())),
                                     ": unknown key, allowed: ", absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

absl::Status FaultTable::refuse(const std::string& key, const std::string& allowed) const {
  return has(key) ? not_allowed(key, allowed) : absl::OkStatus();
}

absl::StatusOr<int64_t> FaultTable::integer(const std::string& key, int64_t min,
                                            int64_t max) const {
  const auto* value = table_[key].as_integer();
  if (value != nullptr && min <= value->get() && value->get() <= max) return value->get();
  return not_allowed(key, absl::StrCat("integer from ", min, " to ", max));
}

absl::StatusOr<double> FaultTable::number(const std::string& key, double min, double max) const {
  const toml::node_view view = table_[key];
  if (view.is_number()) {
    const double value = view.value<double>().value_or(min - 1);
    if (min <= value && value <= max) return value;
  }
  return not_allowed(key, absl::StrCat("number x with ", min, " <= x <= ", max));
}

absl::StatusOr<std::string> FaultTable::word(const std::string& key,
                                             const std::string& allowed) const {
  const std::vector<std::string> words = absl::StrSplit(allowed, ", ");
  const auto* text = table_[key].as_string();
  if (text != nullptr && std::find(words.begin(), words.end(), text->get()) != words.end()) {
    return text->get();
  }
  return not_allowed(key, allowed);
}

}  // namespace evermoe
