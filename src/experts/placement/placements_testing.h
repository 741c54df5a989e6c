// Every placement of small plans, as the oracle of this folder's tests.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <vector>

#include "experts/placement/replica_placement.h"

namespace evermoe {

// By the number of failed nodes: in how many of the cases some expert is lost. At most 12 nodes.
inline std::vector<int64_t> lost_cases(const std::vector<uint32_t>& node_masks, int experts) {
  const int nodes = static_cast<int>(node_masks.size());
  const uint32_t all = (uint32_t{1} << experts) - 1;
  uint32_t held[1 << 12];  // by the set of live nodes: the experts on them
  std::vector<int64_t> lost(static_cast<size_t>(nodes) + 1, 0);
  held[0] = 0;
  for (uint32_t live = 0; live < uint32_t{1} << nodes; ++live) {
    if (live) held[live] = held[live & (live - 1)] | node_masks[std::countr_zero(live)];
    lost[nodes - std::popcount(live)] += held[live] != all;
  }
  return lost;
}

inline std::vector<int64_t> lost_cases(const ExpertsOfNodes& plan, int experts) {
  std::vector<uint32_t> masks;
  for (const auto& on_node : plan) {
    uint32_t mask = 0;
    for (const int expert : on_node) mask |= uint32_t{1} << expert;
    masks.push_back(mask);
  }
  return lost_cases(masks, experts);
}

// Calls `visit` with the masks of every placement of `left` on `nodes` nodes of `slots` slots, each
// multiset of nodes once.
inline void for_each_placement(std::vector<int> left, int nodes, int slots,
                               const std::function<void(const std::vector<uint32_t>&)>& visit) {
  std::vector<uint32_t> masks;
  std::vector<std::vector<int>> contents;  // of the nodes so far, non-decreasing
  std::function<void()> next_node;
  std::function<void(size_t, std::vector<int>&)> fill = [&](size_t expert,
                                                            std::vector<int>& on_node) {
    if (static_cast<int>(on_node.size()) == slots) {
      if (!contents.empty() && on_node < contents.back()) return;
      uint32_t mask = 0;
      for (const int e : on_node) mask |= uint32_t{1} << e;
      contents.push_back(on_node);
      masks.push_back(mask);
      next_node();
      contents.pop_back();
      masks.pop_back();
      return;
    }
    for (size_t e = expert; e < left.size(); ++e) {
      if (left[e] == 0) continue;
      --left[e];
      on_node.push_back(static_cast<int>(e));
      fill(e, on_node);
      on_node.pop_back();
      ++left[e];
    }
  };
  next_node = [&] {
    if (static_cast<int>(masks.size()) == nodes) return visit(masks);
    std::vector<int> on_node;
    fill(0, on_node);
  };
  next_node();
}

// Every ascending vector of `experts` counts >= 1 with the given sum.
inline std::vector<std::vector<int>> ascending_counts(int experts, int sum) {
  std::vector<std::vector<int>> found;
  std::vector<int> counts;
  std::function<void(int)> choose = [&](int left) {
    const int open = experts - static_cast<int>(counts.size());
    const int least = counts.empty() ? 1 : counts.back();
    if (open == 1) {
      if (left < least) return;
      counts.push_back(left);
      found.push_back(counts);
      counts.pop_back();
      return;
    }
    for (int count = least; count * open <= left; ++count) {
      counts.push_back(count);
      choose(left - count);
      counts.pop_back();
    }
  };
  choose(sum);
  return found;
}

}  // namespace evermoe
