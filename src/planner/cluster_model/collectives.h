// How long collective communication takes: latency plus bytes over bandwidth, on two kinds of
// links.
//
// A message of m bytes takes a + m / b (Hockney). The GPUs of a node share a fast fabric; nodes are
// joined by NICs, which the GPUs of a node share. Collectives over several nodes go in two levels,
// as NCCL's do: inside the nodes first, so that every GPU carries its share across. All functions
// take the bytes of one rank.
#pragma once

namespace evermoe {

struct Link {
  double bytes_per_second = 1;  // of one GPU, each way
  double latency_seconds = 0;
  double message(double bytes) const { return latency_seconds + bytes / bytes_per_second; }
};

struct Fabric {
  Link inside;  // between GPUs of a node
  Link across;  // between nodes, if all GPUs of a node send at once
  int gpus_per_node = 1;
};

// Rings on one kind of link. REQUIRES: ranks >= 1. Nothing to do for one rank.
//   all-reduce              2 (p - 1) a + 2 (p - 1)/p m / b
//   reduce-scatter, gather    (p - 1) a +   (p - 1)/p m / b     m: the whole buffer
double ring_all_reduce_seconds(int ranks, double bytes, const Link& link);
double ring_gather_seconds(int ranks, double bytes, const Link& link);

// `ranks` neighbouring ranks, the first of them at a node's first GPU.
double all_reduce_seconds(int ranks, double bytes, const Fabric& fabric);
// Reduce-scatter or all-gather of a buffer of `bytes`.
double gather_seconds(int ranks, double bytes, const Fabric& fabric);
// Every rank sends `bytes` in all, spread evenly over all ranks, itself included. What stays inside
// the nodes and what crosses go at the same time.
double all_to_all_seconds(int ranks, double bytes, const Fabric& fabric);

}  // namespace evermoe
