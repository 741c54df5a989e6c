// Which tokens go to which replicas (Lazarus 4.2, Algorithm 1, corrected), exactly and in integers.
//
// Every rank knows the number of tokens that each rank routes to each expert and the replicas that
// each rank holds. From these alone it derives the whole exchange, so nothing more has to be said.
// The paper's fractions do not conserve tokens as printed, and lose up to 5 % of them to rounding
// when repaired. Here, for each expert:
//
//   * every token goes to exactly one rank,
//   * t tokens on r replicas give a rank with k of them k t / r, rounded down or up,
//   * a rank serves as many of its own tokens as this balance allows, and a host as many of its own
//     ranks' as that allows; only the rest crosses between hosts,
//   * at most 2N - 1 pairs of ranks exchange tokens where every rank is a host of its own.
//
// What is over by rounding goes round robin, starting at rank (expert modulo N), so it does not
// pile up on rank 0. replica_buffers.h turns the counts into positions in buffers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace evermoe {

struct DispatchProblem {
  int ranks = 0;
  int experts = 0;
  std::span<const int64_t> tokens;  // [rank * experts + expert]
  // [rank * experts + expert]: how many, or other weights that say which part of the expert's
  // tokens each rank serves.
  std::span<const int> replicas;
  std::span<const int> host_of;  // by rank, numbered from 0; empty: every rank is a host of its own
};

inline constexpr int64_t kDispatchTokensMax = int64_t{1} << 40;  // from one rank to one expert

// `tokens` of those that `source` routed to `expert` are served by `destination`; never 0.
struct DispatchCell {
  int expert = 0;
  int source = 0;
  int destination = 0;
  int64_t tokens = 0;
  friend auto operator<=>(const DispatchCell&, const DispatchCell&) = default;
};

// A run of consecutive tokens. The tokens that a rank routed to an expert are taken in input order;
// the runs for ascending destinations follow each other.
struct TokenRun {
  int peer = 0;  // destination or source; the rank itself included
  int expert = 0;
  int64_t first = 0;  // among the tokens that the sender routed to the expert
  int64_t tokens = 0;
  friend auto operator<=>(const TokenRun&, const TokenRun&) = default;
};

struct RankDispatch {
  std::vector<TokenRun> sends;  // by (destination, expert): the order of the send buffer
  std::vector<TokenRun>
      receives;  // by (source, expert): the order of the receive buffer; `first` is 0
};

class ReplicaDispatch {
 public:
  // InvalidInput if a table has the wrong size, a number is negative or too large, or an expert
  // with tokens has no replica. Copies what it needs. O(ranks * experts).
  static absl::StatusOr<ReplicaDispatch> create(const DispatchProblem& problem);

  // What `rank` sends and receives. O(ranks * experts), the same for every rank.
  RankDispatch of_rank(int rank) const;
  // The whole exchange by (expert, source, destination).
  std::vector<DispatchCell> all() const;

 private:
  struct Holder {
    int rank = 0;
    int64_t replicas = 0;
    int64_t capacity = 0;  // tokens that it serves
    int64_t most = 0;      // rounded up
  };
  // What is still open in the exchange of one expert, by rank.
  struct Open {
    std::vector<int64_t> sends;     // tokens not yet served
    std::vector<int64_t> receives;  // capacity not yet used, of the holders
  };
  template <typename Emit>
  class Match;

  ReplicaDispatch() = default;
  void share_out(int expert, int64_t sum);
  // Emit is called with (source, destination, tokens).
  template <typename Emit>
  void serve_locally(int expert, Open& open, const Emit& emit) const;
  template <typename Emit>
  void serve_globally(int expert, Open& open, const Emit& emit) const;
  template <typename Emit>
  void serve_globally_from(int source, int expert, Open& open, const Emit& emit) const;
  bool is_holder(int rank, int expert) const;
  std::span<const int64_t> tokens_of(int expert) const {
    return std::span(tokens_).subspan(static_cast<size_t>(expert) * ranks_, ranks_);
  }

  int ranks_ = 0;
  std::vector<int64_t> tokens_;                  // [expert * ranks + rank]
  std::vector<std::vector<Holder>> holders_of_;  // by expert, from rank (expert modulo ranks) on
  std::vector<int> host_of_;                     // by rank
  std::vector<std::vector<int>> ranks_of_;       // by host, ascending
};

}  // namespace evermoe
