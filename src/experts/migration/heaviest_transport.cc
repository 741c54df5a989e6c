#include "experts/migration/heaviest_transport.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace evermoe {
namespace {

// What holds all the time: the prices of a pair add up to its weight at least, and to no more where
// something is carried; groups with something left have the least price of their side, which is 0
// on the right. Once it is 0 on the left, too, no transport is heavier than this one, because none
// is heavier than what all groups have at these prices.
class Transport {
 public:
  Transport(std::span<const int> supply, std::span<const int> demand,
            std::span<const TransportPair> pairs);

  void solve();
  std::vector<int> take() { return std::move(carried_); }

 private:
  static constexpr int kUnreached = -1;

  size_t lefts() const { return supply_.size(); }
  int slack(const TransportPair& of) const {
    return left_price_[static_cast<size_t>(of.left)] + right_price_[static_cast<size_t>(of.right)] -
           of.weight;
  }
  bool reach();
  void reach_from_left(int left);
  int push_left(int left, int most);
  int push_right(int right, int most);
  void change_prices();

  std::vector<int> supply_, demand_;  // what is left
  const std::span<const TransportPair> pairs_;
  std::vector<size_t> left_begin_;  // by group on the left, in pairs_
  std::vector<int> left_price_, right_price_;
  int least_price_ = 0;  // of groups on the left with something left
  std::vector<int> carried_;
  // By group on the right: the pairs that carry to it, or did. They are few, pairs are many.
  std::vector<std::vector<size_t>> carriers_;
  std::vector<bool> is_carrier_;

  // Of one search: in how many steps a group was reached, and which pairs were tried from it.
  std::vector<int> left_steps_, right_steps_;
  std::vector<size_t> left_next_, right_next_;
  std::vector<int> queue_;  // on the left
};

Transport::Transport(std::span<const int> supply, std::span<const int> demand,
                     std::span<const TransportPair> pairs)
    : supply_(supply.begin(), supply.end()),
      demand_(demand.begin(), demand.end()),
      pairs_(pairs),
      left_begin_(supply.size() + 1, 0),
      right_price_(demand.size(), 0),
      carried_(pairs.size(), 0),
      carriers_(demand.size()),
      is_carrier_(pairs.size()) {
  for (const TransportPair& pair : pairs) {
    CHECK(pair.weight > 0) << pair.weight;
    ++left_begin_[static_cast<size_t>(pair.left) + 1];
    least_price_ = std::max(least_price_, pair.weight);
  }
  std::partial_sum(left_begin_.begin(), left_begin_.end(), left_begin_.begin());
  left_price_.assign(supply.size(), least_price_);
}

void Transport::solve() {
  while (least_price_ > 0) {
    while (reach()) {
      left_next_ = left_begin_;
      right_next_.assign(demand_.size(), 0);
      for (size_t left = 0; left < lefts(); ++left) {
        while (supply_[left] > 0) {
          const int pushed = push_left(static_cast<int>(left), supply_[left]);
          if (pushed == 0) break;
          supply_[left] -= pushed;
        }
      }
    }
    change_prices();
  }
}

// From every group on the left that has something left, over pairs without slack, and back over
// those that carry. Whether it comes to a group on the right that has something left.
bool Transport::reach() {
  left_steps_.assign(lefts(), kUnreached);
  right_steps_.assign(demand_.size(), kUnreached);
  queue_.clear();
  for (size_t left = 0; left < lefts(); ++left) {
    if (supply_[left] == 0) continue;
    left_steps_[left] = 0;
    queue_.push_back(static_cast<int>(left));
  }
  for (size_t i = 0; i < queue_.size(); ++i) reach_from_left(queue_[i]);
  for (size_t right = 0; right < demand_.size(); ++right) {
    if (right_steps_[right] != kUnreached && demand_[right] > 0) return true;
  }
  return false;
}

void Transport::reach_from_left(int left) {
  const auto l = static_cast<size_t>(left);
  for (size_t p = left_begin_[l]; p < left_begin_[l + 1]; ++p) {
    const auto right = static_cast<size_t>(pairs_[p].right);
    if (right_steps_[right] != kUnreached || slack(pairs_[p]) > 0) continue;
    right_steps_[right] = left_steps_[l] + 1;
    for (const size_t back : carriers_[right]) {
      const auto from = static_cast<size_t>(pairs_[back].left);
      if (carried_[back] == 0 || left_steps_[from] != kUnreached) continue;
      left_steps_[from] = right_steps_[right] + 1;
      queue_.push_back(pairs_[back].left);
    }
  }
}

// Carries up to `most` more out of a group, one step further at a time; what led nowhere once is
// not tried again in this search.
int Transport::push_left(int left, int most) {
  const auto l = static_cast<size_t>(left);
  for (size_t& p = left_next_[l]; p < left_begin_[l + 1]; ++p) {
    const TransportPair& to = pairs_[p];
    if (right_steps_[static_cast<size_t>(to.right)] != left_steps_[l] + 1 || slack(to) > 0)
      continue;
    const int pushed = push_right(to.right, most);
    if (pushed == 0) continue;
    carried_[p] += pushed;
    if (!is_carrier_[p]) carriers_[static_cast<size_t>(to.right)].push_back(p);
    is_carrier_[p] = true;
    return pushed;
  }
  return 0;
}

// A group on the right keeps it, or another one that it has of gives it to somebody else.
int Transport::push_right(int right, int most) {
  const auto r = static_cast<size_t>(right);
  if (demand_[r] > 0) {
    const int kept = std::min(most, demand_[r]);
    demand_[r] -= kept;
    return kept;
  }
  for (size_t& i = right_next_[r]; i < carriers_[r].size(); ++i) {
    const size_t back = carriers_[r][i];
    const int left = pairs_[back].left;
    if (carried_[back] == 0 || left_steps_[static_cast<size_t>(left)] != right_steps_[r] + 1)
      continue;
    const int pushed = push_left(left, std::min(most, carried_[back]));
    if (pushed == 0) continue;
    carried_[back] -= pushed;
    return pushed;
  }
  return 0;
}

// After a search that came to nothing: what was reached becomes cheaper on the left and dearer on
// the right, until another pair has no slack or what is left on the left costs nothing.
void Transport::change_prices() {
  int by = least_price_;
  for (const int left : queue_) {
    const auto l = static_cast<size_t>(left);
    for (size_t p = left_begin_[l]; p < left_begin_[l + 1]; ++p) {
      if (right_steps_[static_cast<size_t>(pairs_[p].right)] == kUnreached)
        by = std::min(by, slack(pairs_[p]));
    }
  }
  for (const int left : queue_) left_price_[static_cast<size_t>(left)] -= by;
  for (size_t right = 0; right < right_steps_.size(); ++right) {
    if (right_steps_[right] != kUnreached) right_price_[right] += by;
  }
  least_price_ -= by;
}

}  // namespace

std::vector<int> heaviest_transport(std::span<const int> supply, std::span<const int> demand,
                                    std::span<const TransportPair> pairs) {
  Transport transport(supply, demand, pairs);
  transport.solve();
  return transport.take();
}

}  // namespace evermoe
