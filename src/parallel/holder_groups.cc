#include "parallel/holder_groups.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace evermoe {
namespace {

std::vector<int> sorted_by_stage(const std::vector<int>& stages) {
  std::vector<int> order(stages.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int i) { return stages[static_cast<size_t>(i)]; });
  return order;
}

}  // namespace

std::vector<std::vector<int>> holder_groups(int domains, int copies) {
  CHECK(0 < copies && copies < domains) << copies << " copies over " << domains << " domains";
  const int members = copies + 1;
  const bool is_even = domains % members == 0;
  const int groups = domains / members - (is_even ? 0 : 1);
  const int ring = domains - groups * members;  // so many, behind the groups
  std::vector<std::vector<int>> holders(static_cast<size_t>(domains));
  for (int domain = 0; domain < domains; ++domain) {
    for (int i = 1; i <= copies; ++i) {
      const int first = groups * members;
      holders[static_cast<size_t>(domain)].push_back(
          domain < first ? (domain + i * groups) % first : first + (domain - first + i) % ring);
    }
  }
  return holders;
}

std::vector<int> pair_across_stages(const std::vector<int>& stages,
                                    const std::vector<int>& holder_stages) {
  CHECK(stages.size() == holder_stages.size()) << stages.size() << " and " << holder_stages.size();
  const std::vector<int> from = sorted_by_stage(stages), to = sorted_by_stage(holder_stages);
  const size_t ranks = from.size();
  const auto holder_of = [&](size_t place, size_t shift) {
    return static_cast<size_t>(to[(place + shift) % ranks]);
  };
  size_t best = 0, fewest = ranks + 1;
  for (size_t shift = 0; shift < ranks && fewest > 0; ++shift) {
    size_t same = 0;
    for (size_t place = 0; place < ranks; ++place)
      same += stages[static_cast<size_t>(from[place])] == holder_stages[holder_of(place, shift)];
    if (same < fewest) best = shift, fewest = same;
  }
  std::vector<int> paired(ranks);
  for (size_t place = 0; place < ranks; ++place)
    paired[static_cast<size_t>(from[place])] = static_cast<int>(holder_of(place, best));
  return paired;
}

}  // namespace evermoe
