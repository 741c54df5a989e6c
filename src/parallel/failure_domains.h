// Which nodes fail together, and which ranks keep whose copies.
//
// A node hangs in a rack and a rack on a switch; losing either takes every node below it. A
// *failure domain* is what is lost at once at a chosen level: a node, a rack or a switch. The
// copies of a rank's snapshots go to ranks in other domains, so that one lost domain never takes a
// shard and a copy of it.
//
// Nodes are numbered 0 .. nodes() - 1 by the caller.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "parallel/topology.h"

namespace evermoe {

enum class DomainLevel { kNode, kRack, kSwitch };

// "node", "rack", "switch".
std::string_view to_string(DomainLevel level);

// Where a node hangs. An empty name means "not known", and such a rack or switch is taken to be
// alone: nothing else is lost with it. Racks of one name on different switches are different racks.
struct DomainPath {
  std::string switch_name;
  std::string rack;

  // "SWITCH/RACK", "RACK" or "". InvalidInput for more parts or an empty part beside another.
  static absl::StatusOr<DomainPath> parse(std::string_view text);
  friend bool operator==(const DomainPath&, const DomainPath&) = default;
};

// Immutable. Domains of a level are numbered by their first node.
class FailureDomains {
 public:
  explicit FailureDomains(const std::vector<DomainPath>& path_of_node);
  // Nothing is known about racks and switches: every node is a domain at every level.
  static FailureDomains nodes_only(int nodes) {
    return FailureDomains(std::vector<DomainPath>(nodes));
  }

  int nodes() const { return static_cast<int>(rack_of_.size()); }
  int count(DomainLevel level) const;
  // REQUIRES: 0 <= node < nodes().
  int domain_of(int node, DomainLevel level) const;
  bool share(int node, int other, DomainLevel level) const {
    return domain_of(node, level) == domain_of(other, level);
  }

 private:
  std::vector<int> rack_of_;    // by node
  std::vector<int> switch_of_;  // by node
};

struct CopyPolicy {
  int copies = 1;  // of each rank's snapshots, beside the rank itself
  DomainLevel level =
      DomainLevel::kNode;  // a rank and its holders are all in different domains of this
};

struct CopyHolders {
  // By rank: its holders, `copies` many; those of other stages first, then ascending.
  std::vector<std::vector<Rank>> holders_of;
  // By rank: the ranks whose copies it keeps, ascending. The inverse of holders_of.
  std::vector<std::vector<Rank>> kept_by;
  int kept_max = 0;        // the most ranks that one rank keeps copies of
  int pairs_in_stage = 0;  // (rank, holder) pairs of one stage
  int ranks_in_stage = 0;  // ranks whose holders all belong to their own stage: lost if it is lost
  std::string reason;      // one line for people
};

// Chooses the holders of every rank's copies.
//
//   1. A rank and its holders are in copies + 1 different domains.
//   2. The most that one rank keeps is as little as 1 allows: exactly `copies` for everybody where
//      the domains' sizes allow it.
//   3. Under 1 and 2 as few pairs as possible share a stage, and these are spread so that as many
//      ranks as possible have a holder in another stage (the last by exchanges between pairs of
//      ranks).
//   4. Where all domains have as many ranks and 3 allows it, domains hold each other's copies in
//      closed groups (holder_groups.h), so that the fewest sets of lost domains take a shard with
//      all its copies.
//
// Deterministic, and a function of the pattern alone: giving every node another number, or putting
// another node in a node's place, changes no holder. Above kDomainPairsExactMax pairs of (domain,
// stage) group and domain, 3 considers only some pairs.
//
// node_of_rank[r] is the node of rank r. InvalidInput if copies is negative, a node is unknown, or
// fewer than `copies` other domains have ranks.
absl::StatusOr<CopyHolders> copy_holders(const Topology& topology,
                                         std::span<const int> node_of_rank,
                                         const FailureDomains& domains, const CopyPolicy& policy);

inline constexpr int64_t kDomainPairsExactMax = 1 << 15;

// The ranks that are on a failed node and have every holder on a failed node too: their snapshots
// are gone. `failed` has an entry for every node.
std::vector<Rank> ranks_without_copy(const CopyHolders& holders, std::span<const int> node_of_rank,
                                     const std::vector<bool>& failed);

}  // namespace evermoe
