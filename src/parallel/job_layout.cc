#include "parallel/job_layout.h"

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace evermoe {

int first_node_of(int rank, int ranks, int nodes) {
  CHECK(0 <= rank && rank < ranks && nodes >= 1) << rank << " of " << ranks << ", " << nodes;
  return static_cast<int>(int64_t{rank} * nodes / ranks);
}

FailureDomains domains_in_racks(int nodes, int racks) {
  std::vector<DomainPath> paths(static_cast<size_t>(nodes));
  for (int node = 0; racks > 0 && node < nodes; ++node)
    paths[static_cast<size_t>(node)].rack = absl::StrCat(int64_t{node} * racks / nodes);
  return FailureDomains(paths);
}

CopyHolders job_copy_holders(const Topology& topology, std::span<const int> node_of_rank,
                             const FailureDomains& domains, int copies,
                             std::optional<DomainLevel> level) {
  for (; level;
       level = level == DomainLevel::kNode ? std::nullopt : std::optional(DomainLevel::kNode)) {
    auto chosen = copy_holders(topology, node_of_rank, domains, {copies, *level});
    if (chosen.ok()) return *std::move(chosen);
  }
  // Other processes are better than nothing.
  std::vector<int> processes(node_of_rank.size());
  std::iota(processes.begin(), processes.end(), 0);
  auto chosen = copy_holders(topology, processes, FailureDomains::nodes_only(topology.world_size()),
                             {copies, DomainLevel::kNode});
  CHECK(chosen.ok()) << chosen.status();
  chosen->reason = absl::StrCat("copies of every rank at ", copies,
                                copies == 1 ? " other process" : " other processes",
                                " (too few failure domains)");
  return *std::move(chosen);
}

}  // namespace evermoe
