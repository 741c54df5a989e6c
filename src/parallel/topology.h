// Which role every rank plays and which layers every stage holds.
//
// A role is (stage, lane). Ranks number the roles stage by stage: stage 0's lanes first. Layers are
// spread over the stages in order; the first stages get one more where they do not divide evenly,
// except that the last stage, which also holds the head, is the last to get one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace evermoe {

struct Role {
  int stage = 0;
  int lane = 0;
  friend auto operator<=>(const Role&, const Role&) = default;
};

class Topology {
 public:
  // `lanes[s]` is the width of stage s. REQUIRES: at least one stage, every width >= 1,
  // layers >= stages.
  Topology(std::vector<int> lanes, int64_t layers);

  int stages() const { return static_cast<int>(lanes_.size()); }
  int lanes(int stage) const { return lanes_[static_cast<size_t>(stage)]; }
  int world_size() const { return first_rank_.back(); }

  Role role_of(Rank rank) const;
  Rank rank_of(Role role) const;
  std::string name_of(Rank rank) const;  // "STAGE.LANE"
  // The ranks of a stage group in role order.
  std::vector<Rank> stage_group(int stage) const;

  // Layers [first_layer(s), first_layer(s + 1)) live on stage s.
  int64_t first_layer(int stage) const { return first_layer_[static_cast<size_t>(stage)]; }
  bool holds_embedding(int stage) const { return stage == 0; }
  bool holds_head(int stage) const { return stage == stages() - 1; }

  std::string to_string() const;  // "2 stages, lanes 2 2"

 private:
  std::vector<int> lanes_;
  std::vector<int32_t> first_rank_;   // stages + 1 entries
  std::vector<int64_t> first_layer_;  // stages + 1 entries
};

}  // namespace evermoe
