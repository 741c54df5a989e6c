#include "config/key_builders.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

struct Unit {
  const char* name;
  int64_t bytes;
};
constexpr Unit kUnits[] = {{"TiB", int64_t{1} << 40},
                           {"GiB", int64_t{1} << 30},
                           {"MiB", int64_t{1} << 20},
                           {"KiB", int64_t{1} << 10},
                           {"B", 1}};

// In the largest unit of which it is a whole number, 0 in bytes.
std::string whole_units(int64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes != 0 && bytes % unit.bytes == 0) return absl::StrCat(bytes / unit.bytes, unit.name);
  }
  return absl::StrCat(bytes, "B");
}

}  // namespace

std::string IntegerRange::to_string() const {
  const std::string kind = multiple_of == 1 ? "integer" : absl::StrCat("multiple of ", multiple_of);
  if (max == std::numeric_limits<int64_t>::max()) return absl::StrCat(kind, ", at least ", min);
  return absl::StrCat(kind, " from ", min, " to ", max);
}

bool NumberRange::contains(double value) const {
  const bool above = min_open ? value > min : value >= min;
  const bool below = max_open ? value < max : value <= max;
  return above && below;
}

std::string NumberRange::to_string() const {
  return absl::StrCat("number x with ", min, min_open ? " < x" : " <= x",
                      max_open ? " < " : " <= ", max);
}

std::string number_to_toml(double value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  // TOML tells numbers from integers by the point or the exponent.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

bool read_number(const FoundValue& found, double& into) {
  if (const double* value = std::get_if<double>(&found.value)) {
    into = *value;
    return std::isfinite(into);
  }
  if (const int64_t* value = std::get_if<int64_t>(&found.value)) {
    into = static_cast<double>(*value);
    return true;
  }
  return false;
}

std::string ByteRange::to_string() const {
  return absl::StrCat("integer of bytes, or text such as \"512MiB\" or \"1.5GiB\", from ",
                      whole_units(min), " to ", whole_units(max));
}

std::optional<int64_t> bytes_of_text(const std::string& text) {
  constexpr double kBytesMax = 0x1p62;
  const size_t number_end = text.find_first_not_of("0123456789.");
  if (number_end == 0 || number_end == std::string::npos) return std::nullopt;
  double number = 0;
  const char* const end = text.data() + number_end;
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || rest != end) return std::nullopt;
  const std::string unit_name = text.substr(number_end + (text[number_end] == ' '));
  for (const Unit& unit : kUnits) {
    const double bytes = number * static_cast<double>(unit.bytes);
    if (unit_name == unit.name && bytes <= kBytesMax) return static_cast<int64_t>(bytes);
  }
  return std::nullopt;
}

std::optional<int64_t> read_bytes(const FoundValue& found) {
  if (const int64_t* bytes = std::get_if<int64_t>(&found.value)) return *bytes;
  if (const auto* text = std::get_if<std::string>(&found.value)) return bytes_of_text(*text);
  return std::nullopt;
}

std::string bytes_to_toml(int64_t bytes) {
  return bytes % 1024 == 0 && bytes != 0 ? quoted(whole_units(bytes)) : absl::StrCat(bytes);
}

}  // namespace evermoe
