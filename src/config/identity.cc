#include "config/identity.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace evermoe {
namespace {

std::map<std::string, std::string> by_key(const std::string& identity) {
  std::map<std::string, std::string> values;
  const std::vector<std::string> lines = absl::StrSplit(identity, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos) values[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return values;
}

}  // namespace

std::string identity_difference(const std::string& there, const std::string& here) {
  const auto old_values = by_key(there);
  std::vector<std::string> differences;
  for (const auto& [key, now] : by_key(here)) {
    const auto found = old_values.find(key);
    const std::string before = found == old_values.end() ? "not set" : found->second;
    if (before != now)
      differences.push_back(absl::StrCat(key, " is ", before, " there and ", now, " here"));
  }
  return absl::StrJoin(differences, ", ");
}

}  // namespace evermoe
