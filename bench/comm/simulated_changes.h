// Changes of one process in the simulated network: counts are exact; of time only what messages
// take on their way passes, and nothing for what a processor does.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "change_rounds.h"
#include "comm/simulated/simulated_network.h"
#include "comm/transport/seated_transport.h"
#include "job_traffic.h"

namespace evermoe {

// Four phases a round: a step, a change, one that is prepared, all anew. Before them all connect.
// Whoever comes to play a rank has the seat in which the one before is not.
class SimulatedChanges {
 public:
  SimulatedChanges(const JobShape& shape, int rounds, uint64_t seed)
      : shape_(shape),
        rounds_(rounds),
        network_(seats_of_job(shape.ranks()), {.seed = seed, .switch_at_every_call = false}),
        table_(static_cast<size_t>(shape.ranks())),
        seats_(static_cast<size_t>(shape.ranks())),
        took_(static_cast<size_t>(last_phase()) + 1) {
    replaced_.push_back(0);  // the root of the tree, with the most branches
    for (int i = 1; i < rounds; ++i)
      replaced_.push_back(static_cast<int>(network_.draw(static_cast<uint64_t>(shape.ranks()))));
  }

  std::vector<ChangeRound> run() {
    for (int rank = 0; rank < shape_.ranks(); ++rank)
      table_[static_cast<size_t>(rank)] = enter(rank, 0);
    for (int phase = 0; phase <= last_phase(); ++phase) {
      network_.after(begin_of(phase) - kNotice, [this, phase] { prepare(phase); });
      network_.after(begin_of(phase) - kNotice / 4, [this] { made_before_.push_back(made()); });
      network_.after(begin_of(phase) + kNotice, [this] { made_.push_back(made()); });
    }
    CHECK(network_.run()) << network_.waiting();
    std::vector<ChangeRound> rounds;
    for (int i = 0; i < rounds_; ++i) {
      const int first = 1 + kPhases * i;
      rounds.push_back(
          {cost_of(first), cost_of(first + 1), cost_of(first + 2), cost_of(first + 3)});
      check(rounds.back(), replaced_[static_cast<size_t>(i)]);
    }
    return rounds;
  }

 private:
  enum class Kind { kStep, kChange, kPrepared, kRebuild };
  static constexpr int kPhases = 4;
  static constexpr absl::Duration kPhase = absl::Seconds(60), kNotice = absl::Seconds(20);

  int last_phase() const { return kPhases * rounds_; }
  static absl::Duration begin_of(int phase) { return (phase + 1) * kPhase; }
  static Kind kind_of(int phase) {
    return phase == 0 ? Kind::kRebuild : static_cast<Kind>((phase - 1) % kPhases);
  }
  static View view_of(int phase) { return View(static_cast<uint32_t>(phase) + 1); }
  bool is_replaced_in(int rank, int phase) const {
    const bool is_change = kind_of(phase) == Kind::kChange || kind_of(phase) == Kind::kPrepared;
    return is_change && replaced_of(phase) == rank;
  }
  int replaced_of(int phase) const { return replaced_[static_cast<size_t>((phase - 1) / kPhases)]; }
  int64_t made() const { return network_.traffic().connections; }

  // A process that plays the rank from this phase on.
  PeerAddress enter(int rank, int phase) {
    int& seat = seats_[static_cast<size_t>(rank)];
    seat = 1 - seat;
    const ProcessNumber process = network_.start(seat_rank(Rank(rank), seat, shape_.ranks()),
                                                 view_of(phase), {[this, phase](Transport& inner) {
                                                   SeatedTransport transport(inner);
                                                   play(transport, phase);
                                                 }},
                                                 Machine(rank));
    return {seated_address(seat, SimulatedNetwork::address(process)), view_of(phase)};
  }

  // Before the phase. Who is to play a rank that is prepared takes it when the phase begins.
  void prepare(int phase) {
    for (int rank = 0; rank < shape_.ranks(); ++rank) {
      PeerAddress& entry = table_[static_cast<size_t>(rank)];
      if (is_replaced_in(rank, phase)) {
        former_ = std::exchange(entry, enter(rank, phase));
      }
      if (kind_of(phase) == Kind::kRebuild) entry.since = view_of(phase);
    }
  }

  void connect_ahead(Transport& transport, int phase) {
    const int own = transport.rank().value, replaced = replaced_of(phase);
    std::vector<PeerAddress> table = table_;
    PeerAddress other = former_;
    if (own != replaced) std::swap(table[static_cast<size_t>(replaced)], other);
    CHECK_OK(transport.set_peers(
        with_others(std::move(table), transport.size(), {{Rank(replaced), other}})));
    if (own != replaced) return;
    const JobPairs pairs = pairs_of(shape_).with(own);
    for (const RankPairs& of_kind : {pairs.messages, pairs.service_messages}) {
      for (const auto& [a, b] : of_kind)
        transport.connect(Rank(a == own ? b : a), Traffic::kMessages);
    }
  }

  void play(Transport& transport, int first) {
    const int own = transport.rank().value;
    std::unique_ptr<JobTraffic> traffic;
    for (int phase = first; phase <= last_phase(); ++phase) {
      if (kind_of(phase) == Kind::kPrepared) {
        network_.pause(begin_of(phase) - kNotice / 2 - network_.now());
        if (phase == first || !is_replaced_in(own, phase)) connect_ahead(transport, phase);
      }
      network_.pause(begin_of(phase) - network_.now());
      if (phase > first && is_replaced_in(own, phase)) return;
      if (kind_of(phase) != Kind::kStep) {
        if (phase > first) transport.revoke(view_of(phase - 1), Cancelled("a view begins"));
        CHECK_OK(transport.set_peers(with_others(table_, transport.size(), {})));
        traffic = std::make_unique<JobTraffic>(transport, shape_, view_of(phase));
      }
      traffic->step();
      absl::Duration& took = took_[static_cast<size_t>(phase)];
      took = std::max(took, network_.now() - begin_of(phase));
      network_.pause(kNotice);  // the last messages arrive before anybody goes
    }
    transport.close();
  }

  ChangeCost cost_of(int phase) const {
    const auto at = static_cast<size_t>(phase);
    return {made_[at] - made_before_[at], absl::ToDoubleMilliseconds(took_[at])};
  }

  void check(const ChangeRound& round, int replaced) const {
    CHECK(round.step.connections == 0);
    CHECK(round.change.connections == pairs_of(shape_).with(replaced).connections(false));
    CHECK(round.prepared.connections == 0);
    CHECK(round.rebuild.connections == pairs_of(shape_).connections(false));
  }

  const JobShape shape_;
  const int rounds_;
  SimulatedNetwork network_;
  std::vector<PeerAddress> table_;           // of the present phase
  std::vector<int> seats_;                   // by rank: in which its process is
  PeerAddress former_;                       // who played the rank that is replaced
  std::vector<int> replaced_;                // by round
  std::vector<int64_t> made_before_, made_;  // connections, by phase
  std::vector<absl::Duration> took_;         // by phase
};

}  // namespace evermoe
