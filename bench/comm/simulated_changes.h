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
#include "job_traffic.h"

namespace evermoe {

// Three phases a round: a step, a change, all anew. Before them all connect.
class SimulatedChanges {
 public:
  SimulatedChanges(const JobShape& shape, int rounds, uint64_t seed)
      : shape_(shape),
        rounds_(rounds),
        network_(shape.ranks(), {.seed = seed, .switch_at_every_call = false}),
        table_(static_cast<size_t>(shape.ranks())),
        took_(static_cast<size_t>(last_phase()) + 1) {
    replaced_.push_back(0);  // the root of the tree, with the most branches
    for (int i = 1; i < rounds; ++i)
      replaced_.push_back(static_cast<int>(network_.draw(static_cast<uint64_t>(shape.ranks()))));
  }

  std::vector<ChangeRound> run() {
    for (int rank = 0; rank < shape_.ranks(); ++rank) enter(rank, 0);
    for (int phase = 0; phase <= last_phase(); ++phase) {
      network_.after(begin_of(phase) - kNotice, [this, phase] { prepare(phase); });
      network_.after(begin_of(phase) + kNotice, [this] { connections_.push_back(made()); });
    }
    CHECK(network_.run()) << network_.waiting();
    std::vector<ChangeRound> rounds;
    for (int i = 0; i < rounds_; ++i) {
      const int first = 1 + 3 * i;
      rounds.push_back({cost_of(first), cost_of(first + 1), cost_of(first + 2)});
      check(rounds.back(), replaced_[static_cast<size_t>(i)]);
    }
    return rounds;
  }

 private:
  enum class Kind { kStep, kChange, kRebuild };
  static constexpr absl::Duration kPhase = absl::Seconds(60), kNotice = absl::Seconds(20);

  int last_phase() const { return 3 * rounds_; }
  static absl::Duration begin_of(int phase) { return (phase + 1) * kPhase; }
  static Kind kind_of(int phase) {
    return phase == 0 ? Kind::kRebuild : static_cast<Kind>((phase - 1) % 3);
  }
  static View view_of(int phase) { return View(static_cast<uint32_t>(phase) + 1); }
  bool is_replaced_in(int rank, int phase) const {
    return kind_of(phase) == Kind::kChange &&
           replaced_[static_cast<size_t>((phase - 1) / 3)] == rank;
  }
  int64_t made() const { return network_.traffic().connections; }

  // A process that plays the rank from this phase on.
  void enter(int rank, int phase) {
    const ProcessNumber process = network_.start(
        Rank(rank), view_of(phase),
        {[this, phase](Transport& transport) { play(transport, phase); }}, Machine(rank));
    table_[static_cast<size_t>(rank)] = {SimulatedNetwork::address(process), view_of(phase)};
  }

  void prepare(int phase) {
    for (int rank = 0; rank < shape_.ranks(); ++rank) {
      if (is_replaced_in(rank, phase)) enter(rank, phase);
      if (kind_of(phase) == Kind::kRebuild)
        table_[static_cast<size_t>(rank)].since = view_of(phase);
    }
  }

  void play(Transport& transport, int first) {
    const int own = transport.rank().value;
    std::unique_ptr<JobTraffic> traffic;
    for (int phase = first; phase <= last_phase(); ++phase) {
      if (phase > first && is_replaced_in(own, phase)) return;
      network_.pause(begin_of(phase) - network_.now());
      if (kind_of(phase) != Kind::kStep) {
        if (phase > first) transport.revoke(view_of(phase - 1), Cancelled("a view begins"));
        CHECK_OK(transport.set_peers(table_));
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
    return {connections_[at] - connections_[at - 1], absl::ToDoubleMilliseconds(took_[at])};
  }

  void check(const ChangeRound& round, int replaced) const {
    CHECK(round.step.connections == 0);
    CHECK(round.change.connections == pairs_of(shape_).with(replaced).connections(false));
    CHECK(round.rebuild.connections == pairs_of(shape_).connections(false));
  }

  const JobShape shape_;
  const int rounds_;
  SimulatedNetwork network_;
  std::vector<PeerAddress> table_;  // of the present phase
  std::vector<int> replaced_;       // by round
  std::vector<int64_t> connections_;
  std::vector<absl::Duration> took_;  // by phase
};

}  // namespace evermoe
