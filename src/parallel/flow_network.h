// Minimum-cost flow on a directed network with integer capacities and costs.
//
// Exact, by LEMON's network simplex. The same network built in the same order gives the same flow,
// so ties are deterministic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace evermoe {

class FlowNetwork {
 public:
  // `supply` is what the node puts in (negative: takes out). Returns its number: 0, 1, ...
  int add_node(int64_t supply = 0);
  // REQUIRES: capacity >= 0. Returns the arc's number: 0, 1, ...
  int add_arc(int from, int to, int64_t capacity, int64_t cost = 0);

  // Finds a flow of least cost that moves every supply; false if there is none.
  // REQUIRES: the supplies sum to 0.
  bool solve();

  // After a solve() that returned true.
  int64_t flow(int arc) const { return flow_[static_cast<size_t>(arc)]; }
  int64_t cost() const { return cost_; }

 private:
  struct Arc {
    int from = 0;
    int to = 0;
    int64_t capacity = 0;
    int64_t cost = 0;
  };
  std::vector<int64_t> supply_;
  std::vector<Arc> arcs_;
  std::vector<int64_t> flow_;
  int64_t cost_ = 0;
};

}  // namespace evermoe
