#include "experts/placement/rank_overlap.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"

namespace evermoe {

RankOverlap::RankOverlap(const std::vector<int>& sorted, int nodes, int slots)
    : sorted_(sorted), nodes_(nodes), slots_(slots) {
  const int head_groups = std::max(0, group_count() - 2);
  tail_first_ = head_groups * slots_;
  for (int group = 0; group < head_groups; ++group) tail_begin_ += width(group);
  tail_nodes_ = nodes_ - tail_begin_;
  CHECK(tail_nodes_ > 0) << "the head groups fill " << tail_begin_ << " of " << nodes_ << " nodes";
}

int RankOverlap::width(int group) const { return std::min(sorted_[group * slots_], nodes_); }

int RankOverlap::missing(int position) const {
  return tail_nodes_ - std::min(sorted_[position], tail_nodes_);
}

bool RankOverlap::is_cut_short() const {
  int64_t wanted = 0;
  for (int group = 0; group < group_count(); ++group) wanted += width(group);
  return wanted > nodes_;
}

// Places the first `groups` groups on nodes of their own; returns the number of nodes used.
int RankOverlap::place_groups(ExpertsOfNodes& nodes, int groups) const {
  int begin = 0;
  for (int group = 0; group < groups; ++group) {
    const int end = std::min(begin + width(group), nodes_);
    const int last = std::min((group + 1) * slots_, experts());
    for (int node = begin; node < end; ++node) {
      for (int position = group * slots_; position < last; ++position)
        nodes[node].push_back(position);
    }
    begin = end;
  }
  return begin;
}

ExpertsOfNodes RankOverlap::plain() const {
  ExpertsOfNodes nodes(nodes_);
  place_groups(nodes, group_count());
  return nodes;
}

// The sizes J_1 .. J_q of the parts: of the admissible q the one whose sizes, largest first, are
// least.
std::vector<int> RankOverlap::part_sizes() const {
  const int block = experts() - (group_count() - 1) * slots_;
  const int first_nodes = sorted_[tail_first_];
  std::vector<int> best, best_descending, least;
  for (int q = 1; q * block <= slots_ && q * block < experts() - tail_first_; ++q) {
    least.push_back(
        missing(experts() - q * block));  // the least replicated expert of the q-th block
    std::vector<int> sizes = least;
    for (int sum = std::accumulate(sizes.begin(), sizes.end(), 0); sum < first_nodes; ++sum) {
      ++*std::min_element(sizes.begin(), sizes.end());
    }
    std::vector<int> descending = sizes;
    std::sort(descending.begin(), descending.end(), std::greater<int>());
    if (best.empty() || descending < best_descending) {
      best = std::move(sizes);
      best_descending = std::move(descending);
    }
    if (std::accumulate(least.begin(), least.end(), 0) >= first_nodes) break;
  }
  return best;
}

ExpertsOfNodes RankOverlap::cover_blocks() const {
  if (group_count() == 1 || !is_cut_short()) return plain();
  ExpertsOfNodes nodes(nodes_);
  CHECK(place_groups(nodes, group_count() - 2) == tail_begin_);

  const int block = experts() - (group_count() - 1) * slots_;
  const int first_nodes = sorted_[tail_first_];
  const std::vector<int> sizes = part_sizes();
  // misses[k][i]: node k of the first ones misses the i-th block from the top.
  std::vector<std::vector<bool>> misses(first_nodes, std::vector<bool>(sizes.size(), false));
  int begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    begin = std::min(begin, first_nodes - sizes[i]);  // the last part may overlap earlier ones
    for (int k = 0; k < sizes[i]; ++k) misses[begin + k][i] = true;
    begin += sizes[i];
  }
  const int blocks_first = experts() - static_cast<int>(sizes.size()) * block;
  for (int k = 0; k < tail_nodes_; ++k) {
    for (int position = k < first_nodes ? tail_first_ : blocks_first; position < experts();
         ++position) {
      const bool is_missed = k < first_nodes && position >= blocks_first &&
                             misses[k][(experts() - 1 - position) / block];
      if (!is_missed) nodes[tail_begin_ + k].push_back(position);
    }
  }
  return nodes;
}

ExpertsOfNodes RankOverlap::wrap_around() const {
  ExpertsOfNodes nodes(nodes_);
  CHECK(place_groups(nodes, std::max(0, group_count() - 2)) == tail_begin_);
  int begin = 0;
  for (int position = tail_first_; position < experts(); ++position) {
    const int held = tail_nodes_ - missing(position);
    begin = (begin + missing(position)) % tail_nodes_;  // the arc it misses ends here
    for (int k = 0; k < held; ++k)
      nodes[tail_begin_ + (begin + k) % tail_nodes_].push_back(position);
  }
  return nodes;
}

}  // namespace evermoe
