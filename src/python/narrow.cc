#include "python/narrow.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

int narrow(int64_t value, const char* name) {
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
    throw_if_error(InvalidInput(absl::StrCat(name, ": ", value, " does not fit in 32 bits")));
  }
  return static_cast<int>(value);
}

std::vector<int> narrow_all(std::span<const int64_t> values, const char* name) {
  std::vector<int> narrowed;
  narrowed.reserve(values.size());
  for (int64_t value : values) narrowed.push_back(narrow(value, name));
  return narrowed;
}

}  // namespace evermoe
