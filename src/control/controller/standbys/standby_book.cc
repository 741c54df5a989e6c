#include "control/controller/standbys/standby_book.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

namespace evermoe {

std::string StandbyBook::on_kept(const StandbysKept& kept) {
  Kept& node = nodes_[kept.node];
  // Of several that are about to take roles some may still be counted.
  const bool has_become_warm = kept.warm > node.warm && kept.warming < node.warming;
  node.warming = kept.warming;
  node.warm = kept.warm;
  node.warm_for = kept.warm_for;
  if (!kept.failure.empty()) {
    ++node.failures;
    return absl::StrCat("a standby on node ", kept.node.value, " has ended: ", kept.failure,
                        node.failures == kFailuresMax ? "; no more are started there" : "");
  }
  if (!has_become_warm) return "";
  node.failures = 0;
  return absl::StrCat("a standby on node ", kept.node.value, " is warm");
}

void StandbyBook::on_start(Node node) {
  const auto found = nodes_.find(node);
  if (found != nodes_.end() && found->second.warm > 0) --found->second.warm;
}

int StandbyBook::warm(Node node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? 0 : found->second.warm;
}

std::vector<std::vector<Rank>> StandbyBook::warm_for(Node node) const {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return {};
  std::vector<std::vector<Rank>> warm_for = found->second.warm_for;
  warm_for.resize(static_cast<size_t>(found->second.warm));  // one may be about to take a role
  return warm_for;
}

bool StandbyBook::is_any_warm() const {
  return std::ranges::any_of(nodes_, [](const auto& node) { return node.second.warm > 0; });
}

std::map<Node, int> StandbyBook::add_missing(const std::map<Node, int>& roles_of) {
  int kept = 0;
  for (const auto& [node, roles] : roles_of) kept += nodes_[node].count();
  std::map<Node, int> added;
  for (; kept < wanted_; ++kept) {
    std::optional<Node> best;
    const auto load = [&](Node node) { return roles_of.at(node) + nodes_[node].count(); };
    for (const auto& [node, roles] : roles_of) {
      if (nodes_[node].failures >= kFailuresMax) continue;
      if (!best || load(node) < load(*best)) best = node;
    }
    if (!best) break;
    expect(*best);
    ++added[*best];
  }
  return added;
}

std::vector<KeepStandbys> StandbyBook::missing(const std::map<Node, int>& roles_of) {
  std::vector<KeepStandbys> told;
  for (const auto& [node, added] : add_missing(roles_of))
    told.push_back({.node = node, .count = nodes_[node].count()});
  return told;
}

std::map<Node, int> StandbyBook::among(const std::map<Node, int>& leavers,
                                       const std::map<Node, int>& roles_of) const {
  std::map<Node, int> found = StandbyBook(*this).add_missing(roles_of);
  std::erase_if(found, [&](const auto& one) { return !leavers.contains(one.first); });
  for (auto& [node, count] : found) count = std::min(count, leavers.at(node));
  return found;
}

}  // namespace evermoe
