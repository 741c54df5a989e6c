// Where the experts of a layer live: expert -> lanes of the stage group, any multiplicity.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace evermoe {

class ExpertPlacement {
 public:
  // lanes_of[e] lists the lanes with a replica of expert e, ascending, at least one.
  ExpertPlacement(std::vector<std::vector<int>> lanes_of, int lane_count);

  // Every expert `replicas` times, spread evenly: the numbers of experts on two lanes differ by at
  // most one. Without replication each lane holds one contiguous block of experts; with it, expert
  // e's replicas sit on the lanes (e * replicas + i) modulo lane_count.
  // REQUIRES: 1 <= replicas <= lane_count.
  static ExpertPlacement uniform(int experts, int lane_count, int replicas);

  int experts() const { return static_cast<int>(lanes_of_.size()); }
  int lane_count() const { return static_cast<int>(experts_on_.size()); }
  const std::vector<int>& lanes_of(int expert) const { return lanes_of_[expert]; }
  // The experts hosted by a lane, ascending.
  const std::vector<int>& experts_on(int lane) const { return experts_on_[lane]; }

  // Some expert is on several lanes: who serves which token is what replica_dispatch.h plans.
  bool has_replicas() const;

  friend bool operator==(const ExpertPlacement&, const ExpertPlacement&) = default;

 private:
  std::vector<std::vector<int>> lanes_of_;
  std::vector<std::vector<int>> experts_on_;
};

// By layer of the model, of those that have experts.
using LayerPlacements = std::map<int64_t, ExpertPlacement>;

}  // namespace evermoe
