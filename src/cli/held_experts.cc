#include "cli/held_experts.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/json_fields.h"

namespace evermoe {
namespace {

constexpr int64_t kFileBytesMax = int64_t{256} << 20;
constexpr int kJsonDepthMax = 16;

absl::StatusOr<std::vector<int>> experts_of(const nlohmann::json& node, const std::string& path,
                                            int experts) {
  std::vector<int> held;
  for (const nlohmann::json& expert : node) {
    if (!expert.is_number_integer() || expert.get<int64_t>() < 0 ||
        expert.get<int64_t>() >= experts)
      return InvalidInput(absl::StrCat(path, ": experts_of_nodes: found ", expert.dump(),
                                       ", allowed: experts 0 to ", experts - 1));
    held.push_back(expert.get<int>());
  }
  return held;
}

}  // namespace

absl::StatusOr<HeldExperts> load_held_experts(Files& files, const std::string& path,
                                              const std::vector<int>& lost, int nodes,
                                              int experts) {
  const absl::StatusOr<std::string> text = read_file(files, path, kFileBytesMax);
  if (!text.ok()) return InvalidInput(std::string(text.status().message()));
  const absl::StatusOr<nlohmann::json> json = parse_json_strictly(*text, kJsonDepthMax, path);
  if (!json.ok()) return InvalidInput(std::string(json.status().message()));
  const nlohmann::json all =
      json->is_object() ? json->value("experts_of_nodes", nlohmann::json()) : nlohmann::json();
  if (!all.is_array())
    return InvalidInput(absl::StrCat(
        path, ": found no list \"experts_of_nodes\", allowed: what `evermoe place --json` prints"));
  const int count = static_cast<int>(all.size());
  const std::set<int> gone(lost.begin(), lost.end());
  if (!gone.empty() && (*gone.begin() < 0 || *gone.rbegin() >= count))
    return InvalidInput(
        absl::StrCat("--lost: found a node that is not in ", path, ", allowed: 0 to ", count - 1));
  HeldExperts held;
  for (int node = 0; node < count; ++node) {
    if (gone.contains(node)) continue;
    ASSIGN_OR_RETURN(auto ids, experts_of(all[static_cast<size_t>(node)], path, experts));
    held.experts_of.push_back(std::move(ids));
    held.numbers.push_back(node);
  }
  if (std::ssize(held.numbers) > nodes)
    return InvalidInput(absl::StrCat("--nodes: found ", nodes, " for ", held.numbers.size(),
                                     " nodes of ", path,
                                     ", allowed: as many, or name those that failed with --lost"));
  held.experts_of.resize(static_cast<size_t>(nodes));
  held.numbers.resize(static_cast<size_t>(nodes), -1);
  return held;
}

}  // namespace evermoe
