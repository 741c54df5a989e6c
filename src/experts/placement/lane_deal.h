// Deals replicas of experts to lanes and evens the lanes out: the inner part of load_placement.h.
//
// Lanes with fewer experts come first, so their numbers differ by at most one and there are always
// enough lanes for the replicas that are left. Of these the least loaded come first, then those of
// lower numbers. So replicas are dealt in rounds: in each every lane gets one, in the order of what
// the lanes had at its beginning. Replicas of an expert lie side by side in this order and weigh
// the same, so most lanes are as loaded as their neighbours, and a round's order is that of a few
// runs.
//
// Pure: integers only.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace evermoe {

// A lane that is busier than the mean by less than one part in so many is as good as even.
inline constexpr int64_t kEvenParts = 256;

class LaneDeal {
 public:
  // shares: by expert, the load of one of its replicas. Nothing is dealt yet.
  LaneDeal(std::vector<int64_t> shares, int lanes, int slots);

  // REQUIRES: the expert was not added before, replicas <= lanes, and the lanes have room for them.
  void add(int expert, int replicas);

  // Exchanges a replica of the busiest lane against a lighter one of one of the least loaded, so
  // that the busier of the two gets as little as can be; again and again, until it has hardly more
  // than the mean, nothing helps, or `exchanges_max` are made.
  void even_out(int exchanges_max);

  // In the order in which they came, except that one that came by an exchange is where the other
  // was.
  std::span<const int> on_lane(int lane) const {
    return {&held_[begin(lane)], static_cast<size_t>(held_count_[static_cast<size_t>(lane)])};
  }

 private:
  using LaneLoad = std::pair<int64_t, int>;
  struct Exchange {
    LaneLoad other;
    int *out = nullptr, *in = nullptr;  // places in held_, of the busiest lane and of the other
    int64_t busier = 0;                 // load of the busier of the two afterwards
  };

  void begin_round();
  void skip_holders(int expert, size_t wanted);
  bool exchange();
  void look_for_exchange(LaneLoad busiest, LaneLoad other, Exchange& best);
  void reorder(LaneLoad before, LaneLoad after);
  bool holds(int lane, int expert) const;

  size_t begin(int lane) const { return static_cast<size_t>(lane) * slots_; }
  std::span<int> on(int lane) {
    return {&held_[begin(lane)], static_cast<size_t>(held_count_[static_cast<size_t>(lane)])};
  }
  int64_t share(int expert) const { return shares_[static_cast<size_t>(expert)]; }

  const std::vector<int64_t> shares_;
  const size_t slots_;
  std::vector<int> held_;        // [lane][slot]
  std::vector<int> held_count_;  // by lane
  std::vector<int64_t> loads_;   // by lane
  std::vector<int> round_;       // the lanes in the order of this round
  size_t served_ = 0;            // so many of them got their replica
  std::vector<LaneLoad> by_load_;
};

}  // namespace evermoe
