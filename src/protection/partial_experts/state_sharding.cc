#include "protection/partial_experts/state_sharding.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace evermoe {
namespace {

// Whole granules that rank `base` takes without rising above `level`.
int64_t granules_below(int64_t level, int64_t base, int64_t granularity) {
  return level <= base ? 0 : (level - base) / granularity;
}

int64_t granules_below(int64_t level, std::span<const int64_t> base_bytes, int64_t granularity) {
  int64_t granules = 0;
  for (const int64_t base : base_bytes) granules += granules_below(level, base, granularity);
  return granules;
}

// The lowest level below which `granules` find room.
int64_t lowest_level(std::span<const int64_t> base_bytes, int64_t granules, int64_t granularity) {
  const auto [low_base, high_base] = std::minmax_element(base_bytes.begin(), base_bytes.end());
  int64_t low = *low_base, high = *high_base + granules * granularity;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (granules_below(middle, base_bytes, granularity) >= granules) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

ModuleAssignment assign_modules(std::span<const int64_t> base_bytes,
                                std::span<const int64_t> module_bytes) {
  CHECK(!base_bytes.empty());
  ModuleAssignment result{.owner = std::vector<int>(module_bytes.size(), 0),
                          .rank_bytes = {base_bytes.begin(), base_bytes.end()}};
  std::vector<int> by_size(module_bytes.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](int a, int b) { return module_bytes[a] > module_bytes[b]; });
  for (const int module : by_size) {
    const auto least = std::min_element(result.rank_bytes.begin(), result.rank_bytes.end());
    result.owner[module] = static_cast<int>(least - result.rank_bytes.begin());
    *least += module_bytes[module];
  }
  return result;
}

std::vector<ByteRange> water_fill(std::span<const int64_t> base_bytes, int64_t total_bytes,
                                  int64_t granularity_bytes) {
  CHECK(!base_bytes.empty() && total_bytes >= 0 && granularity_bytes >= 1);
  // The last granule may be short. Counting it whole cannot raise the level by more than its gap.
  const int64_t granules = (total_bytes + granularity_bytes - 1) / granularity_bytes;
  const int64_t level = lowest_level(base_bytes, granules, granularity_bytes);
  // Below level - 1 everyone is full; who can rise to the level does so from rank 0 on, until all
  // is placed.
  int64_t left = granules - granules_below(level - 1, base_bytes, granularity_bytes);
  std::vector<ByteRange> ranges;
  int64_t begin = 0;
  for (const int64_t base : base_bytes) {
    int64_t own = granules_below(level - 1, base, granularity_bytes);
    if (left > 0 && granules_below(level, base, granularity_bytes) > own) {
      ++own;
      --left;
    }
    const int64_t end = std::min(total_bytes, begin + own * granularity_bytes);
    ranges.push_back({begin, end});
    begin = end;
  }
  CHECK(begin == total_bytes) << begin << " of " << total_bytes;
  return ranges;
}

}  // namespace evermoe
