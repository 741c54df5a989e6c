#include "control/controller/status/survivable_losses.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {
namespace {

constexpr size_t kShownSetsMax = 8;

void sort_and_unify(std::vector<Node>& nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
}

std::string count_text(int nodes) {
  switch (nodes) {
    case 1: return "one node";
    case 2: return "two";
    case 3: return "three";
    default: return absl::StrCat(nodes);
  }
}

std::string set_text(const std::vector<Node>& set) {
  return absl::StrJoin(set, "+",
                       [](std::string* out, Node node) { absl::StrAppend(out, node.value); });
}

}  // namespace

SurvivableLosses survivable_losses(std::vector<std::vector<Node>> keepers,
                                   std::vector<Node> in_use) {
  keepers.push_back(std::move(in_use));
  for (std::vector<Node>& set : keepers) sort_and_unify(set);
  std::sort(keepers.begin(), keepers.end());
  keepers.erase(std::unique(keepers.begin(), keepers.end()), keepers.end());
  if (keepers.front().empty()) return {.is_known = true};  // somebody's state is gone already
  size_t smallest = keepers.front().size();
  for (const std::vector<Node>& set : keepers) smallest = std::min(smallest, set.size());
  SurvivableLosses losses{.is_known = true, .is_protected = true};
  losses.any = std::max(0, static_cast<int>(smallest) - 1);
  for (std::vector<Node>& set : keepers) {
    if (set.size() != smallest) continue;
    ++losses.fatal_sets;
    if (losses.fatal.size() < kFatalSetsMax) losses.fatal.push_back(std::move(set));
  }
  return losses;
}

std::string to_text(const SurvivableLosses& losses) {
  if (!losses.is_known) return "not known yet";
  if (!losses.is_protected) return "none from memory: all go back to the newest checkpoint on disk";
  std::vector<std::string> sets;
  for (const std::vector<Node>& set : losses.fatal) {
    if (sets.size() < kShownSetsMax) sets.push_back(set_text(set));
  }
  const int64_t more = losses.fatal_sets - static_cast<int64_t>(sets.size());
  std::string text = losses.any == 0 ? "" : absl::StrCat("any ", count_text(losses.any), "; ");
  absl::StrAppend(&text, "any ", count_text(losses.any + 1), " but ", absl::StrJoin(sets, ", "));
  if (more > 0) absl::StrAppend(&text, " and ", more, " others");
  return text;
}

}  // namespace evermoe
