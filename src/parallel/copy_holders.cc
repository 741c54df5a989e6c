// copy_holders() of failure_domains.h.
//
// Where all domains have as many ranks, closed groups of domains (holder_groups.h) are taken unless
// they put more copies inside a stage than need be. Otherwise:
//
// The ranks of one stage in one domain form a *group*; within a group all are alike. A minimum-cost
// flow decides how many copies go from each group to each other group: a group of n ranks sends at
// most n into one domain, takes at most n * kept_max, and a copy inside a stage costs 1. Because of
// the first limit, dealing a group's copies to its ranks in turn, domain by domain, gives every
// rank different domains; because of the second, dealing a group's intake to its ranks in turn
// loads none too much.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "parallel/failure_domains.h"
#include "parallel/flow_network.h"
#include "parallel/holder_groups.h"

namespace evermoe {
namespace {

struct Group {
  int domain = 0;
  int stage = 0;
  std::vector<int> ranks;  // ascending
};

struct Shipment {
  int from = 0;  // groups
  int to = 0;
  int64_t copies = 0;
};

class HolderSearch {
 public:
  HolderSearch(const Topology& topology, std::span<const int> node_of_rank,
               const FailureDomains& domains, CopyPolicy policy);

  int domain_count() const { return static_cast<int>(groups_in_.size()); }
  CopyHolders run();

 private:
  int ranks() const { return static_cast<int>(domain_of_.size()); }
  std::optional<CopyHolders> in_groups();
  std::vector<Shipment> least_shipments() const;
  std::optional<std::vector<Shipment>> shipments(int64_t kept_max,
                                                 const std::set<int>& offsets) const;
  std::set<int> all_offsets() const;
  std::set<int> some_offsets() const;
  void deal(const std::vector<Shipment>& shipments);
  void spread_stages();
  bool inside_stage(int rank) const;
  int outside_count(int rank) const;
  bool give_outside_holder(int rank, int donor);
  bool fits(int rank, int leaving, int holder) const;
  CopyHolders result() const;

  const CopyPolicy policy_;
  std::vector<int> domain_of_;  // by rank, numbered by first rank
  std::vector<int> stage_of_;   // by rank
  std::vector<Group> groups_;
  std::vector<std::vector<int>> groups_in_;  // by domain
  std::vector<std::vector<int>> holders_;    // by rank
};

HolderSearch::HolderSearch(const Topology& topology, std::span<const int> node_of_rank,
                           const FailureDomains& domains, CopyPolicy policy)
    : policy_(policy) {
  std::map<int, int> domains_seen;
  std::map<std::pair<int, int>, int> group_of;
  for (int rank = 0; rank < topology.world_size(); ++rank) {
    const int known_as = domains.domain_of(node_of_rank[rank], policy_.level);
    const int domain =
        domains_seen.try_emplace(known_as, static_cast<int>(domains_seen.size())).first->second;
    const int stage = topology.role_of(Rank(rank)).stage;
    groups_in_.resize(domains_seen.size());
    const auto [group, is_new] =
        group_of.try_emplace({domain, stage}, static_cast<int>(groups_.size()));
    if (is_new) {
      groups_in_[domain].push_back(group->second);
      groups_.push_back({.domain = domain, .stage = stage});
    }
    groups_[group->second].ranks.push_back(rank);
    domain_of_.push_back(domain);
    stage_of_.push_back(stage);
  }
  holders_.resize(domain_of_.size());
}

std::set<int> HolderSearch::all_offsets() const {
  std::set<int> offsets;
  for (int offset = 1; offset < domain_count(); ++offset) offsets.insert(offset);
  return offsets;
}

// Near and far around the ring of domains, with a step that shares no period with a regular layout
// of stages.
std::set<int> HolderSearch::some_offsets() const {
  std::set<int> offsets;
  for (int i = 1; i <= 16; ++i) {
    offsets.insert(1 + (i - 1) % (domain_count() - 1));
    offsets.insert(1 + (i * (domain_count() / 17) + i) % (domain_count() - 1));
  }
  return offsets;
}

std::optional<std::vector<Shipment>> HolderSearch::shipments(int64_t kept_max,
                                                             const std::set<int>& offsets) const {
  FlowNetwork network;
  std::vector<int> sender, keeper;
  for (const Group& group : groups_) {
    sender.push_back(network.add_node(policy_.copies * static_cast<int64_t>(group.ranks.size())));
    keeper.push_back(network.add_node());
  }
  const int sink = network.add_node(-policy_.copies * static_cast<int64_t>(ranks()));
  for (size_t i = 0; i < groups_.size(); ++i) {
    network.add_arc(keeper[i], sink, kept_max * static_cast<int64_t>(groups_[i].ranks.size()));
  }
  struct Lane {
    int arc, from, to;
  };
  std::vector<Lane> lanes;
  for (int from = 0; from < static_cast<int>(groups_.size()); ++from) {
    const auto width = static_cast<int64_t>(groups_[from].ranks.size());
    for (const int offset : offsets) {
      const std::vector<int>& targets =
          groups_in_[(groups_[from].domain + offset) % domain_count()];
      int gate = sender[from];  // where the limit of one domain applies
      if (targets.size() > 1) {
        gate = network.add_node();
        network.add_arc(sender[from], gate, width);
      }
      for (const int to : targets) {
        const int cost = groups_[from].stage == groups_[to].stage ? 1 : 0;
        lanes.push_back({network.add_arc(gate, keeper[to], width, cost), from, to});
      }
    }
  }
  if (!network.solve()) return std::nullopt;
  std::vector<Shipment> found;
  for (const Lane& lane : lanes) {
    if (network.flow(lane.arc) > 0) found.push_back({lane.from, lane.to, network.flow(lane.arc)});
  }
  return found;
}

std::vector<Shipment> HolderSearch::least_shipments() const {
  const int64_t pairs = static_cast<int64_t>(groups_.size()) * domain_count();
  if (pairs > kDomainPairsExactMax) {
    if (auto found = shipments(policy_.copies, some_offsets())) return *std::move(found);
  }
  const std::set<int> offsets = all_offsets();
  if (auto found = shipments(policy_.copies, offsets)) return *std::move(found);
  int64_t too_little = policy_.copies, enough = ranks();
  std::optional<std::vector<Shipment>> best = shipments(enough, offsets);
  CHECK(best.has_value()) << "every rank has " << policy_.copies << " other domains";
  while (enough - too_little > 1) {
    const int64_t middle = (too_little + enough) / 2;
    if (auto found = shipments(middle, offsets)) {
      enough = middle;
      best = std::move(found);
    } else {
      too_little = middle;
    }
  }
  return *std::move(best);
}

void HolderSearch::deal(const std::vector<Shipment>& shipments) {
  // By sending group: the group each copy goes to, domain by domain.
  std::vector<std::vector<int>> sent(groups_.size());
  for (const Shipment& shipment : shipments) {
    sent[shipment.from].insert(sent[shipment.from].end(), static_cast<size_t>(shipment.copies),
                               shipment.to);
  }
  std::vector<std::vector<int>> target_groups(domain_of_.size());
  for (size_t from = 0; from < groups_.size(); ++from) {
    const std::vector<int>& members = groups_[from].ranks;
    for (size_t i = 0; i < sent[from].size(); ++i) {
      target_groups[members[i % members.size()]].push_back(sent[from][i]);
    }
  }
  std::vector<size_t> next(groups_.size(), 0);
  for (int rank = 0; rank < ranks(); ++rank) {
    for (const int to : target_groups[rank]) {
      const std::vector<int>& members = groups_[to].ranks;
      holders_[rank].push_back(members[next[to]++ % members.size()]);
    }
  }
}

int HolderSearch::outside_count(int rank) const {
  return static_cast<int>(
      std::count_if(holders_[rank].begin(), holders_[rank].end(),
                    [&](int holder) { return stage_of_[holder] != stage_of_[rank]; }));
}

// Whether `holder` may take the place of `leaving` among the holders of `rank`.
bool HolderSearch::fits(int rank, int leaving, int holder) const {
  if (domain_of_[holder] == domain_of_[rank]) return false;
  return std::none_of(holders_[rank].begin(), holders_[rank].end(), [&](int other) {
    return other != leaving && domain_of_[other] == domain_of_[holder];
  });
}

// Exchanges a holder of `rank` for one of `donor` that is outside the stage of `rank`. True if it
// could.
bool HolderSearch::give_outside_holder(int rank, int donor) {
  for (int& mine : holders_[rank]) {
    for (int& theirs : holders_[donor]) {
      if (stage_of_[theirs] == stage_of_[rank]) continue;
      if (fits(rank, mine, theirs) && fits(donor, theirs, mine)) {
        std::swap(mine, theirs);
        return true;
      }
    }
  }
  return false;
}

// Costs no pair: the holder that `rank` gives away was inside its stage, so at worst it now is
// inside the donor's, who has another one outside.
void HolderSearch::spread_stages() {
  std::vector<int> donors;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (outside_count(rank) >= 2) donors.push_back(rank);
  }
  for (int rank = 0; rank < ranks(); ++rank) {
    if (outside_count(rank) > 0) continue;
    for (const int donor : donors) {
      if (outside_count(donor) >= 2 && give_outside_holder(rank, donor)) break;
    }
  }
}

CopyHolders HolderSearch::result() const {
  CopyHolders result;
  result.kept_by.resize(holders_.size());
  for (int rank = 0; rank < ranks(); ++rank) {
    std::vector<int> of = holders_[rank];
    const auto in_stage = [&](int holder) { return stage_of_[holder] == stage_of_[rank]; };
    std::sort(of.begin(), of.end());
    std::stable_partition(of.begin(), of.end(), [&](int holder) { return !in_stage(holder); });
    result.pairs_in_stage += static_cast<int>(std::count_if(of.begin(), of.end(), in_stage));
    if (!of.empty() && outside_count(rank) == 0) ++result.ranks_in_stage;
    auto& named = result.holders_of.emplace_back();
    for (const int holder : of) {
      named.push_back(Rank(holder));
      result.kept_by[holder].push_back(Rank(rank));
    }
  }
  for (const auto& kept : result.kept_by)
    result.kept_max = std::max(result.kept_max, static_cast<int>(kept.size()));
  result.reason = absl::StrCat(policy_.copies, policy_.copies == 1 ? " copy" : " copies", " of ",
                               ranks(), " ranks over ", domain_count(), " failure domains (",
                               std::string(to_string(policy_.level)), "), at most ",
                               result.kept_max, " on a rank, ", result.ranks_in_stage,
                               " ranks have all theirs in their own stage");
  return result;
}

// nullopt: domains have different numbers of ranks.
std::optional<CopyHolders> HolderSearch::in_groups() {
  std::vector<std::vector<int>> members(groups_in_.size()), stages(groups_in_.size());
  for (int rank = 0; rank < ranks(); ++rank) {
    members[domain_of_[rank]].push_back(rank);
    stages[domain_of_[rank]].push_back(stage_of_[rank]);
  }
  for (const auto& ranks : members) {
    if (ranks.size() != members[0].size()) return std::nullopt;
  }
  const auto groups = holder_groups(domain_count(), policy_.copies);
  for (int domain = 0; domain < domain_count(); ++domain) {
    for (const int other : groups[domain]) {
      const std::vector<int> pairs = pair_across_stages(stages[domain], stages[other]);
      for (size_t i = 0; i < pairs.size(); ++i)
        holders_[members[domain][i]].push_back(members[other][pairs[i]]);
    }
  }
  return result();
}

CopyHolders HolderSearch::run() {
  if (policy_.copies == 0) return result();
  const std::optional<CopyHolders> grouped = in_groups();
  if (grouped && grouped->pairs_in_stage == 0) return *grouped;
  for (std::vector<int>& holders : holders_) holders.clear();
  deal(least_shipments());
  spread_stages();
  CopyHolders spread = result();
  const bool is_as_good = grouped && grouped->pairs_in_stage <= spread.pairs_in_stage &&
                          grouped->ranks_in_stage <= spread.ranks_in_stage;
  return is_as_good ? *grouped : spread;
}

}  // namespace

absl::StatusOr<CopyHolders> copy_holders(const Topology& topology,
                                         std::span<const int> node_of_rank,
                                         const FailureDomains& domains, const CopyPolicy& policy) {
  CHECK(node_of_rank.size() == static_cast<size_t>(topology.world_size()))
      << node_of_rank.size() << " nodes named";
  if (policy.copies < 0)
    return InvalidInput(absl::StrCat("copies is ", policy.copies, ", must be at least 0"));
  for (size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    if (node_of_rank[rank] < 0 || node_of_rank[rank] >= domains.nodes()) {
      return InvalidInput(absl::StrCat("rank ", rank, " is on node ", node_of_rank[rank],
                                       ", but there are ", domains.nodes(), " nodes"));
    }
  }
  HolderSearch search(topology, node_of_rank, domains, policy);
  if (search.domain_count() <= policy.copies) {
    return InvalidInput(
        absl::StrCat(policy.copies, policy.copies == 1 ? " copy" : " copies",
                     " of every rank need ", policy.copies + 1, " failure domains (",
                     std::string(to_string(policy.level)), ") with ranks, there ",
                     search.domain_count() == 1 ? "is " : "are ", search.domain_count()));
  }
  return search.run();
}

}  // namespace evermoe
