// Changes of one process among real ones of this machine. One more than there are ranks: two take
// turns at playing one rank, with a new transport each time, and the former one ends its own
// without a goodbye, as a process that is killed.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/error.h"
#include "change_rounds.h"
#include "job_traffic.h"
#include "rank_processes.h"

namespace evermoe {

struct ProcessChangesOptions {
  JobShape shape;
  std::string transport;
  int rounds = 1;
  // Two processes take turns at it.
  int replaced() const { return shape.ranks() / 2; }
};

// What all processes share.
struct ChangeBoard {
  struct Place {
    char address[4096];
    uint32_t since;
  };
  pthread_barrier_t barrier;
  std::atomic<int64_t> began_ns, ended_ns, connections;
  Place places[];  // by rank
};

inline ChangeBoard* make_change_board(int ranks) {
  const auto bytes = sizeof(ChangeBoard) + sizeof(ChangeBoard::Place) * static_cast<size_t>(ranks);
  auto* const board = reinterpret_cast<ChangeBoard*>(share_memory<char>(static_cast<int>(bytes)));
  pthread_barrierattr_t shared;
  CHECK(::pthread_barrierattr_init(&shared) == 0);
  CHECK(::pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) == 0);
  CHECK(::pthread_barrier_init(&board->barrier, &shared, static_cast<unsigned>(ranks) + 1) == 0);
  return board;
}

class ChangingProcess {
 public:
  ChangingProcess(ChangeBoard& board, const ProcessChangesOptions& options, int number)
      : board_(board),
        options_(options),
        number_(number),
        rank_(number < options.shape.ranks() ? number : options.replaced()) {}

  std::vector<ChangeRound> run() {
    ::alarm(kSecondsMax);  // one that fails leaves the others waiting
    if (number_ < options_.shape.ranks()) enter();
    measure(Kind::kRebuild);
    std::vector<ChangeRound> rounds;
    for (int i = 0; i < options_.rounds; ++i) {
      ChangeRound& round = rounds.emplace_back();
      round.step = measure(Kind::kStep);
      round.change = measure(Kind::kChange);
      round.rebuild = measure(Kind::kRebuild);
    }
    if (transport_) transport_->close();
    return rounds;
  }

 private:
  enum class Kind { kStep, kChange, kRebuild };
  static constexpr unsigned kSecondsMax = 600;
  // Until everybody has noticed that a process has ended.
  static constexpr absl::Duration kSettled = absl::Milliseconds(50);

  ChangeBoard::Place& own_place() { return board_.places[rank_]; }

  void enter() {
    const auto listener = listen_for(options_.transport);
    const std::string& address = listener->address();
    CHECK(address.size() < sizeof(ChangeBoard::Place::address)) << address;
    own_place() = {};
    address.copy(own_place().address, address.size());
    own_place().since = view_.value;
    auto transport = listener->open(Rank(rank_), options_.shape.ranks(), view_);
    CHECK_OK(transport.status());
    transport_ = *std::move(transport);
  }

  void leave() {
    traffic_.reset();
    transport_.reset();
  }

  void prepare(Kind kind) {
    if (kind != Kind::kStep) view_ = View(view_.value + 1);
    if (kind == Kind::kChange && rank_ == options_.replaced()) transport_ ? leave() : enter();
    if (kind == Kind::kRebuild && transport_) own_place().since = view_.value;
    if (number_ == 0) {
      board_.began_ns = INT64_MAX;
      board_.ended_ns = board_.connections = 0;
    }
    absl::SleepFor(kSettled);
  }

  std::vector<PeerAddress> table() const {
    std::vector<PeerAddress> table;
    for (int i = 0; i < options_.shape.ranks(); ++i)
      table.push_back({board_.places[i].address, View(board_.places[i].since)});
    return table;
  }

  void open_view(const std::vector<PeerAddress>& table) {
    transport_->revoke(View(view_.value - 1), Cancelled("a view begins"));
    CHECK_OK(transport_->set_peers(table));
    traffic_ = std::make_unique<JobTraffic>(*transport_, options_.shape, view_);
  }

  void take_part(Kind kind, const std::vector<PeerAddress>& table) {
    const int64_t made_before = transport_->connections_opened();
    int64_t began = absl::GetCurrentTimeNanos();
    if (kind != Kind::kStep) open_view(table);
    traffic_->step();
    int64_t ended = absl::GetCurrentTimeNanos();
    for (int64_t least = board_.began_ns;
         began < least && !board_.began_ns.compare_exchange_weak(least, began);) {
    }
    for (int64_t most = board_.ended_ns;
         ended > most && !board_.ended_ns.compare_exchange_weak(most, ended);) {
    }
    board_.connections += transport_->connections_opened() - made_before;
  }

  ChangeCost measure(Kind kind) {
    prepare(kind);
    await_all();
    const std::vector<PeerAddress> table = this->table();
    await_all();
    if (transport_) take_part(kind, table);
    await_all();
    const ChangeCost cost{board_.connections,
                          static_cast<double>(board_.ended_ns - board_.began_ns) / 1e6};
    check(kind, cost.connections);
    await_all();
    return cost;
  }

  // What transports have counted is what the step's traffic names.
  void check(Kind kind, int64_t connections) const {
    const bool of_each_kind = options_.transport == "ucx";
    const JobPairs pairs = pairs_of(options_.shape);
    const int64_t named = kind == Kind::kStep ? 0
                          : kind == Kind::kChange
                              ? pairs.with(options_.replaced()).connections(of_each_kind)
                              : pairs.connections(of_each_kind);
    CHECK(connections == named) << connections << " connections for " << named;
  }

  void await_all() { ::pthread_barrier_wait(&board_.barrier); }

  ChangeBoard& board_;
  const ProcessChangesOptions options_;
  const int number_;
  const int rank_;
  View view_{1};
  std::unique_ptr<Transport> transport_;  // of the process that plays the rank now
  std::unique_ptr<JobTraffic> traffic_;
};

inline std::vector<ChangeRound> measure_process_changes(const ProcessChangesOptions& options) {
  ChangeBoard& board = *make_change_board(options.shape.ranks());
  auto* const rounds = share_memory<ChangeRound>(options.rounds);
  const int failures = run_processes(options.shape.ranks() + 1, [&](int number) {
    const std::vector<ChangeRound> seen = ChangingProcess(board, options, number).run();
    if (number == 0) std::copy(seen.begin(), seen.end(), rounds);
  });
  CHECK(failures == 0) << "a process has failed";
  return {rounds, rounds + options.rounds};
}

}  // namespace evermoe
