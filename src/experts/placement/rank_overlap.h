// The skeletons of maximum-rank-overlap plans: which nodes must hold which experts before the
// vacant slots are filled. Internal to replica_placement.h, which says what MRO and MRO-q are.
//
// Experts are named by their position in ascending order of replicas. Groups are consecutive
// positions, `slots` to a group. The *tail* is the last two groups and the nodes that the others
// leave.
#pragma once

#include <vector>

#include "experts/placement/replica_placement.h"

namespace evermoe {

class RankOverlap {
 public:
  // REQUIRES: `sorted` ascending, every count >= 1, sum nodes * slots.
  RankOverlap(const std::vector<int>& sorted, int nodes, int slots);

  // MRO: every group on nodes of its own, the last on what is left at most.
  ExpertsOfNodes plain() const;

  // MRO-q. In a tail that is cut short every node must miss m = E' - slots of its E' experts. MRO
  // lets all r_1 nodes of the first tail group miss the same m. Here these nodes are cut into q
  // parts, each missing another block of m consecutive popular experts: a loss then takes all live
  // nodes inside one part, or all outside the r_1. The same as plain() where no group is cut short.
  ExpertsOfNodes cover_blocks() const;

  // The tail's experts each miss N' - min(r_e, N') consecutive nodes of the N' tail nodes; these
  // arcs are laid end to end around the nodes, so every expert is on exactly min(r_e, N') of them.
  ExpertsOfNodes wrap_around() const;

 private:
  int experts() const { return static_cast<int>(sorted_.size()); }
  int group_count() const { return (experts() + slots_ - 1) / slots_; }
  int width(int group) const;  // nodes that the group's representative can fill
  int missing(int position) const;
  bool is_cut_short() const;
  int place_groups(ExpertsOfNodes& nodes, int groups) const;
  std::vector<int> part_sizes() const;

  const std::vector<int>& sorted_;
  const int nodes_;
  const int slots_;
  int tail_first_ = 0;  // position of the tail's first expert
  int tail_begin_ = 0;  // first node of the tail
  int tail_nodes_ = 0;
};

}  // namespace evermoe
