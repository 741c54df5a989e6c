// Lists that records of a job have as JSON, read strictly: what is of another type is a problem of
// `fields`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "checkpoint/format/json_fields.h"

namespace evermoe {

inline constexpr int64_t kRecordTextBytesMax = 1 << 20;

inline std::vector<std::string> texts(JsonFields& fields, const char* key) {
  std::vector<std::string> values;
  for (const nlohmann::json& value : fields.array(key)) {
    if (value.is_string())
      values.push_back(value.get<std::string>());
    else
      fields.problem(absl::StrCat(key, ": not a text"));
  }
  return values;
}

// Each of 0 to 2^31 - 1.
inline std::vector<int> numbers(JsonFields& fields, const char* key) {
  std::vector<int> values;
  for (const nlohmann::json& value : fields.array(key)) {
    if (value.is_number_unsigned() && value.get<uint64_t>() <= INT32_MAX)
      values.push_back(value.get<int>());
    else
      fields.problem(absl::StrCat(key, ": not a number from 0 to 2147483647"));
  }
  return values;
}

}  // namespace evermoe
