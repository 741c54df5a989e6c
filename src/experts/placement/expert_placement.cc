#include "experts/placement/expert_placement.h"

#include <algorithm>

#include "base/check.h"

namespace evermoe {

ExpertPlacement::ExpertPlacement(std::vector<std::vector<int>> lanes_of, int lane_count)
    : lanes_of_(std::move(lanes_of)), experts_on_(lane_count) {
  for (int expert = 0; expert < experts(); ++expert) {
    const std::vector<int>& lanes = lanes_of_[expert];
    CHECK(!lanes.empty() && std::is_sorted(lanes.begin(), lanes.end()) &&
          std::adjacent_find(lanes.begin(), lanes.end()) == lanes.end())
        << "expert " << expert;
    for (const int lane : lanes) {
      CHECK(lane >= 0 && lane < lane_count) << "expert " << expert << " on lane " << lane;
      experts_on_[lane].push_back(expert);
    }
  }
}

ExpertPlacement ExpertPlacement::uniform(int experts, int lane_count, int replicas) {
  CHECK(replicas >= 1 && replicas <= lane_count) << replicas << " replicas on " << lane_count;

  std::vector<std::vector<int>> lanes_of(experts);
  for (int expert = 0; expert < experts; ++expert) {
    for (int i = 0; i < replicas; ++i) {
      const int64_t lane = replicas == 1
                               ? static_cast<int64_t>(expert) * lane_count / experts
                               : (static_cast<int64_t>(expert) * replicas + i) % lane_count;
      lanes_of[expert].push_back(static_cast<int>(lane));
    }
    std::sort(lanes_of[expert].begin(), lanes_of[expert].end());
  }
  return ExpertPlacement(std::move(lanes_of), lane_count);
}

bool ExpertPlacement::has_replicas() const {
  return std::ranges::any_of(lanes_of_, [](const auto& lanes) { return lanes.size() > 1; });
}

}  // namespace evermoe
