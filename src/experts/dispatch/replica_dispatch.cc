#include "experts/dispatch/replica_dispatch.h"

#include <algorithm>
#include <numeric>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

absl::Status check_input(const DispatchProblem& problem) {
  const auto cells = static_cast<size_t>(problem.ranks) * static_cast<size_t>(problem.experts);
  if (problem.ranks < 1 || problem.experts < 0 || problem.tokens.size() != cells ||
      problem.replicas.size() != cells) {
    return InvalidInput(absl::StrCat("tables of ", problem.tokens.size(), " and ",
                                     problem.replicas.size(), " entries for ", problem.ranks,
                                     " ranks and ", problem.experts, " experts"));
  }
  if (!problem.host_of.empty() && problem.host_of.size() != static_cast<size_t>(problem.ranks)) {
    return InvalidInput(
        absl::StrCat(problem.host_of.size(), " hosts named for ", problem.ranks, " ranks"));
  }
  for (const int host : problem.host_of) {
    if (host >= 0 && host < problem.ranks) continue;
    return InvalidInput(absl::StrCat("host ", host, " of ", problem.ranks, " ranks"));
  }
  for (size_t i = 0; i < cells; ++i) {
    if (problem.tokens[i] >= 0 && problem.tokens[i] <= kDispatchTokensMax &&
        problem.replicas[i] >= 0)
      continue;
    return InvalidInput(absl::StrCat("rank ", i / problem.experts, ", expert ", i % problem.experts,
                                     ": ", problem.tokens[i], " tokens, ", problem.replicas[i],
                                     " replicas"));
  }
  return absl::OkStatus();
}

// [rank][expert] to [expert][rank], in blocks that fit the cache.
std::vector<int64_t> transposed(std::span<const int64_t> table, int ranks, int experts) {
  constexpr int kBlock = 32;
  std::vector<int64_t> turned(table.size());
  for (int rank_begin = 0; rank_begin < ranks; rank_begin += kBlock) {
    const int rank_end = std::min(ranks, rank_begin + kBlock);
    for (int expert = 0; expert < experts; ++expert) {
      for (int rank = rank_begin; rank < rank_end; ++rank) {
        turned[static_cast<size_t>(expert) * ranks + rank] =
            table[static_cast<size_t>(rank) * experts + expert];
      }
    }
  }
  return turned;
}

}  // namespace

absl::StatusOr<ReplicaDispatch> ReplicaDispatch::create(const DispatchProblem& problem) {
  RETURN_IF_ERROR(check_input(problem));
  ReplicaDispatch dispatch;
  dispatch.ranks_ = problem.ranks;
  dispatch.tokens_ = transposed(problem.tokens, problem.ranks, problem.experts);
  dispatch.host_of_.assign(problem.host_of.begin(), problem.host_of.end());
  if (dispatch.host_of_.empty()) {
    dispatch.host_of_.resize(problem.ranks);
    std::iota(dispatch.host_of_.begin(), dispatch.host_of_.end(), 0);
  }
  dispatch.ranks_of_.resize(problem.ranks);
  for (int rank = 0; rank < problem.ranks; ++rank)
    dispatch.ranks_of_[dispatch.host_of_[rank]].push_back(rank);

  dispatch.holders_of_.resize(problem.experts);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    for (int expert = 0; expert < problem.experts; ++expert) {
      const int replicas = problem.replicas[static_cast<size_t>(rank) * problem.experts + expert];
      if (replicas > 0)
        dispatch.holders_of_[expert].push_back({.rank = rank, .replicas = replicas});
    }
  }
  for (int expert = 0; expert < problem.experts; ++expert) {
    auto& holders = dispatch.holders_of_[expert];
    const auto is_before = [&](const Holder& holder) {
      return holder.rank < expert % problem.ranks;
    };
    std::rotate(holders.begin(), std::partition_point(holders.begin(), holders.end(), is_before),
                holders.end());
    const auto tokens = dispatch.tokens_of(expert);
    const int64_t sum = std::accumulate(tokens.begin(), tokens.end(), int64_t{0});
    if (!holders.empty()) {
      dispatch.share_out(expert, sum);
    } else if (sum > 0) {
      return InvalidInput(absl::StrCat("expert ", expert, " has ", sum, " tokens and no replica"));
    }
  }
  return dispatch;
}

// Sets the capacities: the holders' parts rounded down, and of what is over at most one more for
// each. What is over goes where it keeps a token on its rank; of these first where it keeps one on
// its host too, which it does not where the host has room already; then where it keeps one on its
// host; then anywhere. Each time in order.
void ReplicaDispatch::share_out(int expert, int64_t sum) {
  const auto tokens = tokens_of(expert);
  std::vector<Holder>& holders = holders_of_[expert];
  int64_t replicas = 0;
  for (const Holder& holder : holders) replicas += holder.replicas;
  const int64_t each = sum / replicas, rest = sum % replicas;
  int64_t over = sum;
  for (Holder& holder : holders) {
    const absl::int128 of_rest = absl::int128(holder.replicas) * rest;
    holder.capacity = holder.replicas * each + static_cast<int64_t>(of_rest / replicas);
    holder.most = holder.capacity + (of_rest % replicas > 0 ? 1 : 0);
    over -= holder.capacity;
  }
  if (over == 0) return;

  // By host of a holder: its tokens beyond its capacity.
  std::vector<int64_t> unserved(ranks_, 0);
  for (const Holder& holder : holders) unserved[host_of_[holder.rank]] -= holder.capacity;
  std::vector<bool> counted(ranks_, false);
  for (const Holder& holder : holders) {
    const int host = host_of_[holder.rank];
    if (counted[host]) continue;
    counted[host] = true;
    for (const int rank : ranks_of_[host]) unserved[host] += tokens[rank];
  }
  const auto add = [&](Holder& holder, int64_t wanted) {
    const int64_t room = holder.most - holder.capacity;
    const int64_t added = std::max(int64_t{0}, std::min({room, wanted, over}));
    holder.capacity += added;
    over -= added;
    unserved[host_of_[holder.rank]] -= added;
  };
  const auto own = [&](const Holder& holder) { return tokens[holder.rank] - holder.capacity; };
  const auto of_host = [&](const Holder& holder) { return unserved[host_of_[holder.rank]]; };
  for (Holder& holder : holders) add(holder, std::min(own(holder), of_host(holder)));
  for (Holder& holder : holders) add(holder, own(holder));
  for (Holder& holder : holders) add(holder, of_host(holder));
  for (Holder& holder : holders) add(holder, over);
}

// Matches open sends with open receives: both laid end to end, in order, and served where they
// overlap.
template <typename Emit>
class ReplicaDispatch::Match {
 public:
  Match(Open& open, const Emit& emit) : open_(open), emit_(emit) {}

  void add_receiver(int rank) { receivers_.push_back(rank); }
  void serve(int source) {
    int64_t& left = open_.sends[source];
    while (left > 0 && next_ < receivers_.size()) {
      int64_t& room = open_.receives[receivers_[next_]];
      const int64_t taken = std::min(left, room);
      if (taken > 0) emit_(source, receivers_[next_], taken);
      left -= taken;
      room -= taken;
      if (room == 0) ++next_;
    }
  }
  // As if others had sent so many tokens before.
  void pass_over(int64_t tokens) {
    while (next_ < receivers_.size() && tokens >= open_.receives[receivers_[next_]]) {
      tokens -= open_.receives[receivers_[next_++]];
    }
    if (next_ < receivers_.size()) open_.receives[receivers_[next_]] -= tokens;
  }

 private:
  Open& open_;
  const Emit& emit_;
  std::vector<int> receivers_;
  size_t next_ = 0;
};

// A rank's own tokens, then those of its host.
template <typename Emit>
void ReplicaDispatch::serve_locally(int expert, Open& open, const Emit& emit) const {
  const auto tokens = tokens_of(expert);
  const std::vector<Holder>& holders = holders_of_[expert];
  open.sends.assign(tokens.begin(), tokens.end());
  open.receives.resize(ranks_);  // of the holders only
  for (const Holder& holder : holders) {
    const int64_t own = std::min(tokens[holder.rank], holder.capacity);
    if (own > 0) emit(holder.rank, holder.rank, own);
    open.sends[holder.rank] -= own;
    open.receives[holder.rank] = holder.capacity - own;
  }
  for (const Holder& holder : holders) {
    const int host = host_of_[holder.rank];
    const std::vector<int>& neighbours = ranks_of_[host];
    if (neighbours.size() == 1 || open.receives[holder.rank] == 0) continue;
    // The first holder of a host does this for all; afterwards nobody there has both tokens and
    // room.
    Match match(open, emit);
    for (const Holder& other : holders) {
      if (host_of_[other.rank] == host) match.add_receiver(other.rank);
    }
    const auto start = std::lower_bound(neighbours.begin(), neighbours.end(), expert % ranks_);
    for (auto at = start; at != neighbours.end(); ++at) match.serve(*at);
    for (auto at = neighbours.begin(); at != start; ++at) match.serve(*at);
  }
}

template <typename Emit>
void ReplicaDispatch::serve_globally(int expert, Open& open, const Emit& emit) const {
  Match match(open, emit);
  for (const Holder& holder : holders_of_[expert]) match.add_receiver(holder.rank);
  for (int rank = expert % ranks_; rank < ranks_; ++rank) match.serve(rank);
  for (int rank = 0; rank < expert % ranks_; ++rank) match.serve(rank);
}

// The part of serve_globally() that `source` sends.
template <typename Emit>
void ReplicaDispatch::serve_globally_from(int source, int expert, Open& open,
                                          const Emit& emit) const {
  Match match(open, emit);
  for (const Holder& holder : holders_of_[expert]) match.add_receiver(holder.rank);
  const auto first = open.sends.begin() + expert % ranks_, own = open.sends.begin() + source;
  match.pass_over(first <= own ? std::accumulate(first, own, int64_t{0})
                               : std::accumulate(first, open.sends.end(), int64_t{0}) +
                                     std::accumulate(open.sends.begin(), own, int64_t{0}));
  match.serve(source);
}

bool ReplicaDispatch::is_holder(int rank, int expert) const {
  const auto& holders = holders_of_[expert];
  return std::any_of(holders.begin(), holders.end(),
                     [&](const Holder& holder) { return holder.rank == rank; });
}

RankDispatch ReplicaDispatch::of_rank(int rank) const {
  CHECK(rank >= 0 && rank < ranks_) << rank << " of " << ranks_;
  RankDispatch dispatch;
  Open open;
  for (int expert = 0; expert < static_cast<int>(holders_of_.size()); ++expert) {
    const size_t sends_begin = dispatch.sends.size();
    const auto note = [&](int source, int destination, int64_t tokens) {
      if (source == rank)
        dispatch.sends.push_back({.peer = destination, .expert = expert, .tokens = tokens});
      if (destination == rank)
        dispatch.receives.push_back({.peer = source, .expert = expert, .tokens = tokens});
    };
    serve_locally(expert, open, note);
    if (is_holder(rank, expert)) {
      serve_globally(expert, open, note);
    } else if (open.sends[rank] > 0) {
      serve_globally_from(rank, expert, open, note);
    }
    std::sort(dispatch.sends.begin() + sends_begin, dispatch.sends.end());
    for (size_t i = sends_begin + 1; i < dispatch.sends.size(); ++i) {
      dispatch.sends[i].first = dispatch.sends[i - 1].first + dispatch.sends[i - 1].tokens;
    }
  }
  std::sort(dispatch.sends.begin(), dispatch.sends.end());
  std::sort(dispatch.receives.begin(), dispatch.receives.end());
  return dispatch;
}

std::vector<DispatchCell> ReplicaDispatch::all() const {
  std::vector<DispatchCell> cells;
  Open open;
  for (int expert = 0; expert < static_cast<int>(holders_of_.size()); ++expert) {
    const auto note = [&](int source, int destination, int64_t tokens) {
      cells.push_back({expert, source, destination, tokens});
    };
    serve_locally(expert, open, note);
    serve_globally(expert, open, note);
  }
  std::sort(cells.begin(), cells.end());
  return cells;
}

}  // namespace evermoe
