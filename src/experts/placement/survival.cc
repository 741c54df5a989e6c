#include "experts/placement/survival.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

// Counts of sets reach C(16000, 8000) = 1e4814; 64 bits of mantissa keep sums of 1e4 rounded terms
// exact to more than a double shows.
using Count = long double;
static_assert(std::numeric_limits<Count>::max_exponent10 > 4900);

// A set of nodes as bits.
using NodeSet = absl::InlinedVector<uint64_t, 2>;

int size_of(const NodeSet& set) {
  int size = 0;
  for (const uint64_t word : set) size += std::popcount(word);
  return size;
}

bool contains(const NodeSet& set, const NodeSet& part) {
  for (size_t i = 0; i < set.size(); ++i) {
    if (part[i] & ~set[i]) return false;
  }
  return true;
}

// C(n, 0) .. C(n, n).
std::vector<Count> binomials(int n) {
  std::vector<Count> row(static_cast<size_t>(n) + 1);
  row[0] = 1;
  for (int k = 1; k <= n; ++k) row[k] = k <= n / 2 ? row[k - 1] * (n - k + 1) / k : Count{0};
  for (int k = n / 2 + 1; k <= n; ++k) row[k] = row[n - k];
  return row;
}

// Of the sets of s live nodes among n: how many lose and how many keep everything, for s = 0 .. n.
struct Tally {
  std::vector<Count> lost;
  std::vector<Count> kept;
};

// The sets of nodes of the experts that contain no other such set, each once.
std::vector<NodeSet> minimal_sets(const ExpertsOfNodes& experts_of, int experts) {
  std::vector<NodeSet> sets(experts, NodeSet((experts_of.size() + 63) / 64, 0));
  for (size_t node = 0; node < experts_of.size(); ++node) {
    for (const int expert : experts_of[node]) sets[expert][node / 64] |= uint64_t{1} << (node % 64);
  }
  std::stable_sort(sets.begin(), sets.end(),
                   [](const NodeSet& a, const NodeSet& b) { return size_of(a) < size_of(b); });
  std::vector<NodeSet> minimal;
  for (const NodeSet& set : sets) {
    const bool is_covered = std::any_of(minimal.begin(), minimal.end(),
                                        [&](const NodeSet& part) { return contains(set, part); });
    if (!is_covered) minimal.push_back(set);
  }
  return minimal;
}

bool touch(const NodeSet& a, const NodeSet& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] & b[i]) return true;
  }
  return false;
}

void unite(NodeSet& set, const NodeSet& other) {
  for (size_t i = 0; i < set.size(); ++i) set[i] |= other[i];
}

// A connected part: its minimal sets and their union.
struct Part {
  NodeSet nodes;
  std::vector<NodeSet> sets;
};

std::vector<Part> connected_parts(const std::vector<NodeSet>& sets) {
  std::vector<Part> parts;
  for (const NodeSet& set : sets) {
    Part joined{.nodes = set, .sets = {set}};
    std::vector<Part> apart;
    for (Part& part : parts) {
      if (!touch(part.nodes, set)) {
        apart.push_back(std::move(part));
        continue;
      }
      unite(joined.nodes, part.nodes);
      joined.sets.insert(joined.sets.end(), part.sets.begin(), part.sets.end());
    }
    apart.push_back(std::move(joined));
    parts = std::move(apart);
  }
  return parts;
}

// The signed number of subfamilies with each union: +1 for odd ones, -1 for even ones, the empty
// one left out. A set of live nodes loses if it avoids some S_e, and sum over families T of +-[it
// avoids all of T] counts that once.
absl::StatusOr<absl::flat_hash_map<NodeSet, int64_t>> signed_unions(const Part& part) {
  absl::flat_hash_map<NodeSet, int64_t> unions;
  for (const NodeSet& set : part.sets) {
    absl::flat_hash_map<NodeSet, int64_t> more;
    more[set] = 1;
    for (const auto& [old, sign] : unions) {
      if (sign == 0) continue;
      NodeSet both = old;
      unite(both, set);
      more[both] -= sign;
    }
    for (const auto& [both, sign] : more) unions[both] += sign;
    if (unions.size() > kUnionsMax) {
      return Unsupported(absl::StrCat("no exact survival: ", part.sets.size(),
                                      " experts' nodes overlap on ", size_of(part.nodes),
                                      " nodes in more than ", kUnionsMax, " ways"));
    }
  }
  return unions;
}

absl::StatusOr<Tally> tally_part(const Part& part) {
  ASSIGN_OR_RETURN(const auto unions, signed_unions(part));
  const int nodes = size_of(part.nodes);
  std::vector<int64_t> families(static_cast<size_t>(nodes) + 1, 0);  // by the size of their union
  for (const auto& [both, sign] : unions) families[size_of(both)] += sign;
  Tally tally{.lost = std::vector<Count>(families.size(), 0), .kept = binomials(nodes)};
  for (int size = 0; size <= nodes; ++size) {
    if (families[size] == 0) continue;
    const std::vector<Count> live = binomials(nodes - size);
    for (int s = 0; s <= nodes - size; ++s)
      tally.lost[s] += static_cast<Count>(families[size]) * live[s];
  }
  for (int s = 0; s <= nodes; ++s) {
    tally.lost[s] = std::clamp(tally.lost[s], Count{0}, tally.kept[s]);
    tally.kept[s] -= tally.lost[s];
  }
  return tally;
}

// Lost together: lost here whatever happens there, or kept here and lost there.
Tally join(const Tally& a, const Tally& b) {
  const size_t nodes = a.lost.size() + b.lost.size() - 2;
  Tally both{.lost = std::vector<Count>(nodes + 1, 0), .kept = std::vector<Count>(nodes + 1, 0)};
  for (size_t i = 0; i < a.lost.size(); ++i) {
    const Count lost = a.lost[i], kept = a.kept[i];
    for (size_t j = 0; j < b.lost.size(); ++j) {
      both.lost[i + j] += lost * (b.lost[j] + b.kept[j]) + kept * b.lost[j];
      both.kept[i + j] += kept * b.kept[j];
    }
  }
  return both;
}

absl::Status check_input(const ExpertsOfNodes& experts_of, int experts) {
  if (experts_of.empty()) return InvalidInput("there are no nodes");
  if (experts_of.size() > static_cast<size_t>(kSurvivalNodesMax)) {
    return InvalidInput(
        absl::StrCat(experts_of.size(), " nodes are more than ", kSurvivalNodesMax));
  }
  for (const auto& on_node : experts_of) {
    for (const int expert : on_node) {
      if (expert < 0 || expert >= experts)
        return InvalidInput(absl::StrCat("expert ", expert, " of ", experts));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SurvivalCurve> survival_curve(const ExpertsOfNodes& experts_of, int experts) {
  RETURN_IF_ERROR(check_input(experts_of, experts));
  const int nodes = static_cast<int>(experts_of.size());
  Tally all{.lost = {0}, .kept = {1}};
  for (const Part& part : connected_parts(minimal_sets(experts_of, experts))) {
    ASSIGN_OR_RETURN(const Tally tally, tally_part(part));
    all = join(all, tally);
  }
  const int free_nodes = nodes - static_cast<int>(all.lost.size()) + 1;
  all = join(all, {.lost = std::vector<Count>(static_cast<size_t>(free_nodes) + 1, 0),
                   .kept = binomials(free_nodes)});

  SurvivalCurve curve;
  for (int failed = 0; failed <= nodes; ++failed) {
    const Count lost = all.lost[nodes - failed], kept = all.kept[nodes - failed];
    curve.lost.push_back(static_cast<double>(lost / (lost + kept)));
    curve.survived.push_back(static_cast<double>(kept / (lost + kept)));
  }
  return curve;
}

ExpertsOfNodes experts_of_domains(const ExpertsOfNodes& experts_of,
                                  const std::vector<int>& domain_of_node) {
  CHECK(experts_of.size() == domain_of_node.size())
      << experts_of.size() << " nodes, " << domain_of_node.size();
  ExpertsOfNodes united;
  for (size_t node = 0; node < experts_of.size(); ++node) {
    const auto domain = static_cast<size_t>(domain_of_node[node]);
    if (domain >= united.size()) united.resize(domain + 1);
    united[domain].insert(united[domain].end(), experts_of[node].begin(), experts_of[node].end());
  }
  for (auto& experts : united) {
    std::sort(experts.begin(), experts.end());
    experts.erase(std::unique(experts.begin(), experts.end()), experts.end());
  }
  return united;
}

}  // namespace evermoe
