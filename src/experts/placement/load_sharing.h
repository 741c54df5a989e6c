// How the lanes that hold an expert share its tokens, so that the busiest lane has as little as can
// be: of the loads that a placement is judged by, and of the tokens of every layer and round.
//
// Equal parts for all replicas leave a lane busier than others that has hot experts besides. Here
// parts go from busy lanes to idle ones that hold the same expert, so fewer slots are enough (an
// expert whose load is half more than a lane's mean takes one lane and half of another one), and
// lanes are even in each round, not in the mean of many.
//
// The least that the busiest lane can have is that of a set of experts for which their lanes are
// too few: the sum of their loads by the number of lanes that hold one of them. Parts are first
// shifted from lanes above the mean to lanes below it, which leaves most tokens where they are, and
// then, where that is not enough, one expert's lanes after the other are levelled, again and again,
// which comes as near to the least as one likes.
//
// Pure: integers only, so the same on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experts/placement/expert_placement.h"
#include "experts/placement/load_placement.h"

namespace evermoe {

class LoadSharing {
 public:
  struct Replica {
    int lane = 0;
    int64_t part = 0;  // of the expert's load
  };

  // Loads by expert, in equal parts. REQUIRES: no lane holds an expert twice, and every expert is
  // on one.
  LoadSharing(std::span<const int64_t> loads, const LanePlan& plan);
  LoadSharing(std::span<const int64_t> loads, const ExpertsOfNodes& experts_of);
  // tokens[lane * experts + expert]: a lane that holds the expert serves its own, and the tokens of
  // others go where least is.
  LoadSharing(std::span<const int64_t> tokens, const ExpertPlacement& placement);

  // Until the busiest lane has hardly more than the mean or passes over the experts hardly help. A
  // pass, of which there are at most kPassesMax, is O(R log R) for R replicas.
  void even_out();
  static constexpr int kPassesMax = 32;

  // The busiest lane's load by the mean of all; 1 if there is no load.
  double slowdown() const;
  // Lanes ascending.
  std::span<const Replica> replicas_of(int expert) const {
    return {&replicas_[begin_[static_cast<size_t>(expert)]],
            replicas_in(static_cast<size_t>(expert))};
  }

 private:
  // Counts, then places: two passes over whatever says what lanes hold.
  template <typename ForEach>
  void begin(int lanes, const ForEach& for_each_replica);
  void share_equally();
  size_t replicas_in(size_t expert) const { return begin_[expert + 1] - begin_[expert]; }
  std::span<Replica> replicas(size_t expert) {
    return {&replicas_[begin_[expert]], replicas_in(expert)};
  }
  int64_t& load_of(const Replica& replica) { return of_lane_[static_cast<size_t>(replica.lane)]; }
  void add(Replica& replica, int64_t part) {
    replica.part += part;
    load_of(replica) += part;
  }
  bool is_even(int64_t busiest) const;
  void shift(size_t expert);
  void level(size_t expert);
  void pour(size_t expert, int64_t load);

  std::vector<int64_t> loads_;
  std::vector<size_t> begin_;      // by expert, in replicas_
  std::vector<Replica> replicas_;  // of one expert after the other
  std::vector<int64_t> of_lane_;   // the sum of its parts
  int64_t mean_ = 0;
  std::vector<Replica*> order_;  // room for pour()
};

// slowdown() of loads that are shared so.
double slowdown_of(std::span<const int64_t> loads, const LanePlan& plan);
double slowdown_of(std::span<const int64_t> loads, const ExpertsOfNodes& experts_of);

}  // namespace evermoe
