#include "control/health/available_memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace evermoe {
namespace {

// Version 1 writes "no limit" as a number near the largest there is.
constexpr int64_t kNoLimit = int64_t{1} << 60;

// Names in a control group's folder.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* inactive;  // lines of memory.stat: files in the page cache
  const char* active;
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file ", "total_active_file "};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file ", "active_file "};

// The number behind `key` in the first line that starts with it; nullopt for none, or "max".
std::optional<int64_t> number_behind(const std::string& path, const std::string& key = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, key)) continue;
    int64_t value = 0;
    if (std::istringstream(line.substr(key.size())) >> value) return value;
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<int64_t> left_in(const std::string& group, const GroupFiles& names) {
  const auto limit = number_behind(absl::StrCat(group, "/", names.limit));
  const auto used = number_behind(absl::StrCat(group, "/", names.used));
  if (!limit || !used || *limit >= kNoLimit) return std::nullopt;
  const std::string stat = group + "/memory.stat";
  const int64_t cached = number_behind(stat, names.inactive).value_or(0) +
                         number_behind(stat, names.active).value_or(0);
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, *used - cached));
}

// Of a group and all above it, whose limits bind it, too.
void take_least(const std::string& mount, std::string group, const GroupFiles& names,
                std::optional<int64_t>& least) {
  while (true) {
    const auto left = left_in(mount + group, names);
    if (left) least = std::min(least.value_or(*left), *left);
    const size_t end = group.rfind('/');
    if (group.empty() || end == std::string::npos) return;
    group.resize(end);
  }
}

}  // namespace

std::optional<int64_t> available_memory(const std::string& root) {
  std::optional<int64_t> least = number_behind(root + "/proc/meminfo", "MemAvailable:");
  if (least) *least *= 1024;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "0::/path" for version 2, "4:memory:/path" for version 1
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (parts[0] == "0" && parts[1].empty())
      take_least(root + "/sys/fs/cgroup", parts[2], kVersion2, least);
    else if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end())
      take_least(root + "/sys/fs/cgroup/memory", parts[2], kVersion1, least);
  }
  return least;
}

}  // namespace evermoe
