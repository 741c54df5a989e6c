#include "control/controller/losses/node_troubles.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {

void NodeTroubles::complain(absl::Duration now, const Process& accuser, const Process& accused) {
  if (accuser.node == accused.node) return;
  const std::pair roles(accuser.rank, accused.rank);
  const Complaint complaint{accuser, accused, now};
  between_[accuser.node][accused.node].insert_or_assign(roles, complaint);
  between_[accused.node][accuser.node].insert_or_assign(roles, complaint);
}

void NodeTroubles::forget(Rank rank, View since) {
  const auto is_it = [&](const Process& process) {
    return process.rank == rank && process.since == since;
  };
  for (auto& [node, others] : between_) {
    for (auto& [other, said] : others) {
      std::erase_if(said, [&](const auto& one) {
        return is_it(one.second.accuser) || is_it(one.second.accused);
      });
    }
    std::erase_if(others, [](const auto& one) { return one.second.empty(); });
  }
  std::erase_if(between_, [](const auto& one) { return one.second.empty(); });
}

std::optional<Node> NodeTroubles::at_fault(
    const std::function<std::optional<absl::Duration>(Node)>& heard) const {
  size_t most = 1;
  std::optional<Node> first;
  for (const auto& [node, others] : between_) {
    if (others.size() < most || others.size() < 2) continue;
    first = others.size() > most ? std::optional(node) : std::nullopt;
    most = others.size();
  }
  if (!first) return std::nullopt;
  const std::map<Node, Said>& others = between_.at(*first);
  const auto alive = std::ranges::count_if(
      others, [&](const auto& one) { return is_alive(one.first, one.second, heard); });
  return alive >= 2 ? first : std::nullopt;
}

bool NodeTroubles::is_alive(Node partner, const Said& said,
                            const std::function<std::optional<absl::Duration>(Node)>& heard) const {
  return std::ranges::any_of(said, [&](const auto& one) {
    return one.second.accuser.node == partner || heard(partner) > one.second.time;
  });
}

std::string NodeTroubles::partners(Node node) const {
  std::vector<std::string> names;
  if (const auto found = between_.find(node); found != between_.end()) {
    for (const auto& [other, said] : found->second) names.push_back(absl::StrCat(other.value));
  }
  if (names.size() < 2) return absl::StrCat("node ", absl::StrJoin(names, ""));
  const std::string last = names.back();
  names.pop_back();
  return absl::StrCat("nodes ", absl::StrJoin(names, ", "), " and ", last);
}

}  // namespace evermoe
