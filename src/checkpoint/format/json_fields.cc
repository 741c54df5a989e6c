#include "checkpoint/format/json_fields.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

using nlohmann::json;

// The library's own parser has no limit, so brackets outside of strings are counted first.
bool nesting_exceeds(const std::string& text, int depth_max) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > depth_max) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

const json& empty_array() {
  static const json& value = *new json(json::array());
  return value;
}

const json& empty_object() {
  static const json& value = *new json(json::object());
  return value;
}

}  // namespace

absl::StatusOr<json> parse_json_strictly(const std::string& text, int depth_max,
                                         const std::string& name) {
  if (nesting_exceeds(text, depth_max)) {
    return Corrupt(absl::StrCat(name, ": nested deeper than ", depth_max));
  }
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  std::string repeated;
  const auto watch = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      repeated = value.get<std::string>();
    }
    return true;
  };
  json document = json::parse(text, watch, /*allow_exceptions=*/false);
  if (document.is_discarded()) return Corrupt(absl::StrCat(name, ": not valid JSON"));
  if (!repeated.empty()) return Corrupt(absl::StrCat(name, ": names \"", repeated, "\" twice"));
  return document;
}

JsonFields::JsonFields(const json& object, std::string where)
    : object_(object.is_object() ? object : empty_object()), where_(std::move(where)) {
  if (!object.is_object()) problem("is not an object");
}

void JsonFields::problem(const std::string& message) {
  if (status_.ok()) status_ = Corrupt(absl::StrCat(where_, ": ", message));
}

const json* JsonFields::find(const char* key) {
  const auto found = object_.find(key);
  if (found != object_.end()) return &*found;
  problem(absl::StrCat("has no \"", key, "\""));
  return nullptr;
}

std::string JsonFields::text(const char* key, int64_t bytes_max) {
  const json* value = find(key);
  if (value == nullptr) return "";
  const auto* text = value->get_ptr<const std::string*>();
  if (text != nullptr && static_cast<int64_t>(text->size()) <= bytes_max) return *text;
  problem(absl::StrCat("\"", key, "\" is not a text of at most ", bytes_max, " bytes"));
  return "";
}

int64_t JsonFields::integer(const char* key, int64_t least, int64_t most) {
  const json* value = find(key);
  if (value == nullptr) return least;
  // An unsigned number above int64's range must not wrap around into the bounds.
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() || value->get<uint64_t>() <= uint64_t{INT64_MAX});
  const int64_t number = fits ? value->get<int64_t>() : 0;
  if (fits && number >= least && number <= most) return number;
  problem(absl::StrCat("\"", key, "\" is not an integer from ", least, " to ", most));
  return least;
}

double JsonFields::number(const char* key) {
  const json* value = find(key);
  if (value == nullptr) return 0;
  if (value->is_number() && std::isfinite(value->get<double>())) return value->get<double>();
  problem(absl::StrCat("\"", key, "\" is not a number"));
  return 0;
}

bool JsonFields::boolean(const char* key) {
  const json* value = find(key);
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  problem(absl::StrCat("\"", key, "\" is neither true nor false"));
  return false;
}

Fingerprint JsonFields::fingerprint(const char* key) {
  const std::optional<Fingerprint> value = fingerprint_from_hex(text(key, 32));
  if (!value) problem(absl::StrCat("\"", key, "\" is not a fingerprint of 32 hexadecimal digits"));
  return value.value_or(Fingerprint{});
}

bool JsonFields::is_null(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && found->is_null();
}

bool JsonFields::has(const char* key) const { return object_.contains(key); }

const json& JsonFields::array(const char* key) {
  const json* value = find(key);
  if (value == nullptr) return empty_array();
  if (value->is_array()) return *value;
  problem(absl::StrCat("\"", key, "\" is not an array"));
  return empty_array();
}

const json& JsonFields::object(const char* key) {
  const json* value = find(key);
  if (value == nullptr) return empty_object();
  if (value->is_object()) return *value;
  problem(absl::StrCat("\"", key, "\" is not an object"));
  return empty_object();
}

}  // namespace evermoe
