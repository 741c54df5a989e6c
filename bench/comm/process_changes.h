// Changes of one process among real ones of this machine. One more than there are ranks: two take
// turns at playing one rank, each in a seat of its own and with a new transport each time, and the
// former one ends its own without a goodbye, as a process that is killed.
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
#include "comm/transport/seated_transport.h"
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
  Place next;      // who is to play the rank that is replaced
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
    if (number_ < options_.shape.ranks()) enter(own_place());
    measure(Kind::kRebuild);
    std::vector<ChangeRound> rounds;
    for (int i = 0; i < options_.rounds; ++i) {
      ChangeRound& round = rounds.emplace_back();
      round.step = measure(Kind::kStep);
      round.change = measure(Kind::kChange);
      round.prepared = measure(Kind::kPrepared);
      round.rebuild = measure(Kind::kRebuild);
    }
    if (transport_) transport_->close();
    return rounds;
  }

 private:
  enum class Kind { kStep, kChange, kPrepared, kRebuild };
  static constexpr unsigned kSecondsMax = 600;
  // Until everybody has noticed that a process has ended.
  static constexpr absl::Duration kSettled = absl::Milliseconds(50);

  ChangeBoard::Place& own_place() { return board_.places[rank_]; }
  int seats() const { return seats_of_job(options_.shape.ranks()); }
  bool is_of_replaced() const { return rank_ == options_.replaced(); }

  void enter(ChangeBoard::Place& place) {
    const int seat = number_ < options_.shape.ranks() ? 0 : 1;
    const auto listener = listen_in_seat(listen_for(options_.transport), seat);
    const std::string& address = listener->address();
    CHECK(address.size() < sizeof(ChangeBoard::Place::address)) << address;
    place = {};
    address.copy(place.address, address.size());
    place.since = view_.value;
    auto transport = listener->open(Rank(rank_), seats(), view_);
    CHECK_OK(transport.status());
    transport_ = *std::move(transport);
  }

  void leave() {
    traffic_.reset();
    transport_.reset();
  }

  void prepare(Kind kind) {
    if (kind != Kind::kStep) view_ = View(view_.value + 1);
    if (kind == Kind::kChange && is_of_replaced()) transport_ ? leave() : enter(own_place());
    if (kind == Kind::kPrepared) prepare_change();
    if (kind == Kind::kRebuild && transport_) own_place().since = view_.value;
    if (number_ == 0) {
      board_.began_ns = INT64_MAX;
      board_.ended_ns = board_.connections = 0;
    }
    absl::SleepFor(kSettled);
  }

  // The one who plays the rank is there until the other one does.
  void prepare_change() {
    is_leaving_ = is_of_replaced() && transport_;
    const bool is_joining = is_of_replaced() && !transport_;
    if (is_joining) enter(board_.next);
    await_all();
    PeerAddress other = address_of(board_.next);
    std::vector<PeerAddress> table = this->table();
    if (is_joining) std::swap(table[static_cast<size_t>(rank_)], other);
    if (transport_ && !is_leaving_) {
      CHECK_OK(transport_->set_peers(
          with_others(std::move(table), seats(), {{Rank(options_.replaced()), other}})));
    }
    if (is_joining) connect_ahead();
    await_all();
    if (is_joining) own_place() = board_.next;
  }

  void connect_ahead() {
    const JobPairs pairs = pairs_of(options_.shape).with(rank_);
    connect_ahead(pairs.messages, Traffic::kMessages);
    connect_ahead(pairs.service_messages, Traffic::kServiceMessages);
  }
  void connect_ahead(const RankPairs& pairs, Traffic traffic) {
    const auto other_of = [this](const auto& pair) {
      return Rank(pair.first == rank_ ? pair.second : pair.first);
    };
    for (const auto& pair : pairs) transport_->connect(other_of(pair), traffic);
    for (const auto& pair : pairs) {
      while (!transport_->is_connected(other_of(pair), traffic))
        absl::SleepFor(absl::Milliseconds(1));
    }
  }

  static PeerAddress address_of(const ChangeBoard::Place& place) {
    return {place.address, View(place.since)};
  }
  std::vector<PeerAddress> table() const {
    std::vector<PeerAddress> table;
    for (int i = 0; i < options_.shape.ranks(); ++i) table.push_back(address_of(board_.places[i]));
    return table;
  }

  void open_view(const std::vector<PeerAddress>& table) {
    transport_->revoke(View(view_.value - 1), Cancelled("a view begins"));
    CHECK_OK(transport_->set_peers(with_others(table, seats(), {})));
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
    if (transport_ && !is_leaving_) take_part(kind, table);
    await_all();
    if (std::exchange(is_leaving_, false)) leave();
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
    const int64_t named = kind == Kind::kRebuild ? pairs.connections(of_each_kind)
                          : kind == Kind::kChange
                              ? pairs.with(options_.replaced()).connections(of_each_kind)
                              : 0;
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
  bool is_leaving_ = false;  // the other process is prepared to play its rank
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
