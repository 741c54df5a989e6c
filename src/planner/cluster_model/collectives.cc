#include "planner/cluster_model/collectives.h"

#include <algorithm>

#include "base/check.h"

namespace evermoe {
namespace {

int nodes_of(int ranks, const Fabric& fabric) {
  return (ranks + fabric.gpus_per_node - 1) / fabric.gpus_per_node;
}

}  // namespace

double ring_gather_seconds(int ranks, double bytes, const Link& link) {
  CHECK(ranks >= 1) << ranks;
  return (ranks - 1) * link.message(bytes / ranks);
}

double ring_all_reduce_seconds(int ranks, double bytes, const Link& link) {
  return 2 * ring_gather_seconds(ranks, bytes, link);
}

double gather_seconds(int ranks, double bytes, const Fabric& fabric) {
  const int nodes = nodes_of(ranks, fabric);
  if (nodes == 1) return ring_gather_seconds(ranks, bytes, fabric.inside);
  const int inside = fabric.gpus_per_node;
  return ring_gather_seconds(inside, bytes, fabric.inside) +
         ring_gather_seconds(nodes, bytes / inside, fabric.across);
}

double all_reduce_seconds(int ranks, double bytes, const Fabric& fabric) {
  return 2 * gather_seconds(ranks, bytes, fabric);
}

double all_to_all_seconds(int ranks, double bytes, const Fabric& fabric) {
  CHECK(ranks >= 1) << ranks;
  const int inside = std::min(ranks, fabric.gpus_per_node), outside = ranks - inside;
  const double to_one = bytes / ranks;
  const double fast = (inside - 1) * fabric.inside.message(to_one);
  const double slow = outside * to_one / fabric.across.bytes_per_second +
                      (outside > 0 ? fabric.across.latency_seconds : 0);
  return std::max(fast, slow);
}

}  // namespace evermoe
