#include "parallel/failure_domains.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

// Numbers keys in the order in which they first come.
template <typename Key>
int number(absl::flat_hash_map<Key, int>& numbers, const Key& key) {
  return numbers.try_emplace(key, static_cast<int>(numbers.size())).first->second;
}

}  // namespace

std::string_view to_string(DomainLevel level) {
  switch (level) {
    case DomainLevel::kNode: return "node";
    case DomainLevel::kRack: return "rack";
    case DomainLevel::kSwitch: return "switch";
  }
  CHECK(false) << static_cast<int>(level);
  return "";
}

absl::StatusOr<DomainPath> DomainPath::parse(std::string_view text) {
  if (text.empty()) return DomainPath{};
  std::vector<std::string> parts = absl::StrSplit(absl::string_view(text.data(), text.size()), '/');
  for (const std::string& part : parts) {
    if (part.empty() || parts.size() > 2) {
      return InvalidInput(
          absl::StrCat("failure domain \"", std::string(text), "\": expected RACK or SWITCH/RACK"));
    }
  }
  if (parts.size() == 1) return DomainPath{.switch_name = "", .rack = parts[0]};
  return DomainPath{.switch_name = parts[0], .rack = parts[1]};
}

FailureDomains::FailureDomains(const std::vector<DomainPath>& path_of_node) {
  // A key is (switch name, rack name, node); what is not known is told apart by what is below it.
  using Key = std::pair<std::pair<std::string, std::string>, int>;
  absl::flat_hash_map<Key, int> racks, switches;
  for (int node = 0; node < static_cast<int>(path_of_node.size()); ++node) {
    const DomainPath& path = path_of_node[node];
    const Key rack{{path.switch_name, path.rack}, path.rack.empty() ? node : -1};
    rack_of_.push_back(number(racks, rack));
    switch_of_.push_back(
        number(switches, path.switch_name.empty() ? rack : Key{{path.switch_name, ""}, -1}));
  }
}

int FailureDomains::count(DomainLevel level) const {
  if (level == DomainLevel::kNode || nodes() == 0) return nodes();
  const std::vector<int>& of = level == DomainLevel::kRack ? rack_of_ : switch_of_;
  return *std::max_element(of.begin(), of.end()) + 1;
}

int FailureDomains::domain_of(int node, DomainLevel level) const {
  CHECK(node >= 0 && node < nodes()) << "node " << node << " of " << nodes();
  if (level == DomainLevel::kNode) return node;
  return level == DomainLevel::kRack ? rack_of_[node] : switch_of_[node];
}

std::vector<Rank> ranks_without_copy(const CopyHolders& holders, std::span<const int> node_of_rank,
                                     const std::vector<bool>& failed) {
  std::vector<Rank> gone;
  for (size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    const auto& of = holders.holders_of[rank];
    const bool lost = failed[node_of_rank[rank]] &&
                      std::all_of(of.begin(), of.end(),
                                  [&](Rank holder) { return failed[node_of_rank[holder.value]]; });
    if (lost) gone.push_back(Rank(static_cast<int32_t>(rank)));
  }
  return gone;
}

}  // namespace evermoe
