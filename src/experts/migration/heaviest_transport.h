// The heaviest transport between groups: how much each pair of groups exchanges, so that the sum of
// what is exchanged times the weight of its pair is greatest.
//
// Exact, by prices: every group on the left begins with the price of the greatest weight, every one
// on the right with 0. A pair whose prices add up to its weight carries as much as can be, by
// breadth-first searches for groups with something left on both sides; then the groups that were
// reached get other prices. As weights are small integers, prices change about as often as there
// are different weights. Built for weights that are numbers of experts in common (node_matching.h):
// there it is many times as fast as a network simplex.
#pragma once

#include <span>
#include <vector>

namespace evermoe {

struct TransportPair {
  int left = 0, right = 0;
  int weight = 0;  // above 0
};

// By pair. The same input gives the same transport, so ties are deterministic. Nothing has to be
// exchanged, so what is left over has no pair of which the other has something left, too.
// REQUIRES: pairs sorted by (left, right), each once; no negative supply or demand.
// A few passes over the pairs for each weight, in practice.
std::vector<int> heaviest_transport(std::span<const int> supply, std::span<const int> demand,
                                    std::span<const TransportPair> pairs);

}  // namespace evermoe
