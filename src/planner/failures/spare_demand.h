// How many spare nodes a job needs: how many nodes are down at an instant, exactly.
//
// A node is down for its own reason with the share of time that its repairs take, and so is a rack,
// which takes all of its nodes with it; all of them independently of each other (failure_law.h).
// Neighbouring nodes are dealt to the racks, so that their sizes differ by at most one
// (availability.h). Whole-job failures are left out: no spare helps there.
//
// With n nodes over R racks, of which i of the larger (a + 1 nodes) and j of the smaller (a nodes)
// are down,
//
//   P(at most m down) = sum over i, j of
//       B(i; larger, q) B(j; smaller, q) P(Binomial(n - d, p) <= m - d),  d = i (a + 1) + j a
//
// with q and p the shares of time that a rack and a node are down by themselves.
#pragma once

#include <optional>

#include "planner/failures/failure_law.h"

namespace evermoe {

// The probability that at most `most` of `nodes` nodes are down at an instant. REQUIRES: nodes >=
// 1, most >= 0.
double at_most_down(const FailureLaw& law, int nodes, int racks, int most);

// Nodes that are down on average.
double mean_down(const FailureLaw& law, int nodes, int racks);

// The least number S of spares, up to `spares_max`, for which a job of `nodes` has all its nodes
// with at least this probability: of nodes + S nodes, spares fail too, at most S are down. Nothing
// if there is none. (More spares never make it less likely: one node more makes one rack larger by
// one.) REQUIRES: 0 < probability < 1, spares_max >= 0.
std::optional<int> spares_needed(const FailureLaw& law, int nodes, int racks, double probability,
                                 int spares_max);

}  // namespace evermoe
