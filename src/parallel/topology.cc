#include "parallel/topology.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace evermoe {

Topology::Topology(std::vector<int> lanes, int64_t layers) : lanes_(std::move(lanes)) {
  CHECK(!lanes_.empty() && layers >= stages()) << "stages=" << stages() << " layers=" << layers;
  first_rank_.push_back(0);
  first_layer_.push_back(0);
  for (int s = 0; s < stages(); ++s) {
    CHECK(lanes_[s] >= 1) << "stage " << s << " has " << lanes_[s] << " lanes";
    first_rank_.push_back(first_rank_.back() + lanes_[s]);
    first_layer_.push_back(first_layer_.back() + layers / stages() +
                           (s < layers % stages() ? 1 : 0));
  }
}

Role Topology::role_of(Rank rank) const {
  CHECK(rank.value >= 0 && rank.value < world_size()) << "rank " << rank;
  const auto after = std::upper_bound(first_rank_.begin(), first_rank_.end(), rank.value);
  const int stage = static_cast<int>(after - first_rank_.begin()) - 1;
  return {stage, rank.value - first_rank_[stage]};
}

Rank Topology::rank_of(Role role) const {
  CHECK(role.stage >= 0 && role.stage < stages() && role.lane >= 0 && role.lane < lanes(role.stage))
      << "role " << role.stage << "." << role.lane;
  return Rank(first_rank_[role.stage] + role.lane);
}

std::string Topology::name_of(Rank rank) const {
  const Role role = role_of(rank);
  return absl::StrCat(role.stage, ".", role.lane);
}

std::vector<Rank> Topology::stage_group(int stage) const {
  std::vector<Rank> ranks;
  for (int lane = 0; lane < lanes(stage); ++lane) ranks.push_back(rank_of({stage, lane}));
  return ranks;
}

std::string Topology::to_string() const {
  return absl::StrCat(stages(), stages() == 1 ? " stage" : " stages", ", lanes ",
                      absl::StrJoin(lanes_, " "));
}

}  // namespace evermoe
