#include "parallel/flow_network.h"

#include <numeric>

#define LEMON_ONLY_TEMPLATES  // no need for its compiled part
#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>

#include "base/check.h"

namespace evermoe {

int FlowNetwork::add_node(int64_t supply) {
  supply_.push_back(supply);
  return static_cast<int>(supply_.size()) - 1;
}

int FlowNetwork::add_arc(int from, int to, int64_t capacity, int64_t cost) {
  CHECK(capacity >= 0) << capacity;
  arcs_.push_back({from, to, capacity, cost});
  return static_cast<int>(arcs_.size()) - 1;
}

bool FlowNetwork::solve() {
  using Graph = lemon::SmartDigraph;
  CHECK(std::accumulate(supply_.begin(), supply_.end(), int64_t{0}) == 0);
  Graph graph;
  graph.reserveNode(static_cast<int>(supply_.size()));
  graph.reserveArc(static_cast<int>(arcs_.size()));
  for (size_t node = 0; node < supply_.size(); ++node) graph.addNode();
  for (const Arc& arc : arcs_) graph.addArc(graph.nodeFromId(arc.from), graph.nodeFromId(arc.to));

  Graph::NodeMap<int64_t> supply(graph);
  for (size_t node = 0; node < supply_.size(); ++node)
    supply[graph.nodeFromId(static_cast<int>(node))] = supply_[node];
  Graph::ArcMap<int64_t> capacity(graph), cost(graph);
  for (size_t i = 0; i < arcs_.size(); ++i) {
    capacity[graph.arcFromId(static_cast<int>(i))] = arcs_[i].capacity;
    cost[graph.arcFromId(static_cast<int>(i))] = arcs_[i].cost;
  }
  using Simplex = lemon::NetworkSimplex<Graph, int64_t, int64_t>;
  Simplex simplex(graph);
  simplex.upperMap(capacity).costMap(cost).supplyMap(supply);
  if (simplex.run() != Simplex::OPTIMAL) return false;

  flow_.resize(arcs_.size());
  for (size_t i = 0; i < arcs_.size(); ++i)
    flow_[i] = simplex.flow(graph.arcFromId(static_cast<int>(i)));
  cost_ = simplex.totalCost();
  return true;
}

}  // namespace evermoe
