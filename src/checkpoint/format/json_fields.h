// Strict reading of JSON from disk: every field is required, typed and bounded.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fingerprint.h"

namespace evermoe {

// Parses a document whose nesting is at most `depth_max` and that names no key of an object twice.
// Errors are Corrupt and begin with `name`.
absl::StatusOr<nlohmann::json> parse_json_strictly(const std::string& text, int depth_max,
                                                   const std::string& name);

// Reads fields of one object and remembers the first problem, so that a decoder reads straight on
// and asks once at the end. After a problem the values are defaults that satisfy the bounds.
class JsonFields {
 public:
  // `object` may be any value; not being an object is the first problem. `where` begins each error.
  JsonFields(const nlohmann::json& object, std::string where);

  std::string text(const char* key, int64_t bytes_max);
  int64_t integer(const char* key, int64_t least, int64_t most);
  double number(const char* key);  // finite
  bool boolean(const char* key);
  Fingerprint fingerprint(const char* key);
  bool is_null(const char* key) const;
  bool has(const char* key) const;
  // An empty array or object where it is missing or of another type.
  const nlohmann::json& array(const char* key);
  const nlohmann::json& object(const char* key);

  // Records a problem found by the caller.
  void problem(const std::string& message);
  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json* find(const char* key);

  const nlohmann::json& object_;
  const std::string where_;
  absl::Status status_;
};

}  // namespace evermoe
