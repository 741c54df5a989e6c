#include "train/state/operator_parts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace evermoe {
namespace {

constexpr int64_t kAutoBytesMin = int64_t{4} << 20;
constexpr int64_t kAutoPartsOfStage = 64;

int part_count(int64_t flat_size, int64_t block_bytes, int64_t part_bytes_max) {
  const int64_t blocks = flat_size / kFlatAlignment;
  const int64_t blocks_max = std::max<int64_t>(part_bytes_max / block_bytes, 1);
  return static_cast<int>(std::max<int64_t>((blocks + blocks_max - 1) / blocks_max, 1));
}

}  // namespace

std::vector<OperatorPart> cut_operators(const std::vector<OperatorSpec>& operators,
                                        int64_t block_bytes, int64_t part_bytes_max) {
  CHECK(block_bytes > 0 && part_bytes_max > 0)
      << block_bytes << " bytes, at most " << part_bytes_max;
  std::vector<OperatorPart> parts;
  for (size_t i = 0; i < operators.size(); ++i) {
    const OperatorSpec& spec = operators[i];
    const int count = part_count(spec.flat_size, block_bytes, part_bytes_max);
    for (int k = 0; k < count; ++k) {
      parts.push_back({i, shard_range(spec.flat_size, count, k),
                       count == 1 ? spec.name : absl::StrCat(spec.name, "[", k, "/", count, "]")});
    }
  }
  return parts;
}

int64_t resolve_part_bytes(int64_t configured, int64_t stage_bytes) {
  return configured > 0 ? configured : std::max(kAutoBytesMin, stage_bytes / kAutoPartsOfStage);
}

}  // namespace evermoe
