#include "toml/toml_text.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr size_t kTomlShownMax = 60;

std::string shown_text(const std::string& text) {
  return absl::Utf8SafeCEscape(text.substr(0, kTomlShownMax));
}

}  // namespace

absl::StatusOr<toml::table> parse_toml(const std::string& text, const std::string& origin) {
  try {
    return toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    std::string why(error.description());
    std::ranges::replace_if(
        why, [](unsigned char c) { return c < 0x20; }, ' ');
    const toml::source_position at = error.source().begin;
    return InvalidInput(absl::StrCat(origin, ":", at.line, ":", at.column, ": not TOML: ", why));
  }
}

std::string found_in_toml(const toml::node* node) {
  if (node == nullptr) return "nothing";
  if (const auto* text = node->as_string())
    return absl::StrCat("\"", shown_text(text->get()), "\"");
  if (const auto* value = node->as_integer()) return absl::StrCat(value->get());
  if (const auto* value = node->as_floating_point()) return absl::StrCat(value->get());
  if (node->is_table()) return "a table";
  return node->is_array() ? "an array" : "something else";
}

absl::Status check_toml_keys(const toml::table& table, const std::string& origin,
                             const std::string& prefix, const std::set<std::string>& known) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (!known.contains(name))
      return InvalidInput(absl::StrCat(origin, ":", key.source().begin.line, ": found ", prefix,
                                       shown_text(name),
                                       ", allowed: ", absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace evermoe
