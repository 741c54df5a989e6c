// For tests: ranks made of the real parts of a member, over a simulated network whose views the
// test decides.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "base/log.h"
#include "comm/simulated/network_clock.h"
#include "comm/simulated/simulated_network.h"
#include "recovery/rank_parts_testing.h"

namespace evermoe {

// Runs `body` as the training thread of every rank of one stage, beside its service thread.
class RankTest : public testing::Test {
 protected:
  using Body = std::function<void(RankParts&)>;
  RankTest() { configure_log("test", LogLevel::kError); }

  // `ends_well`: no service thread ends by an error.
  void run(int ranks, const Body& body, bool ends_well = true) {
    const Topology topology({ranks}, 1);
    SimulatedNetwork network(
        ranks, {.bytes_per_second = bytes_per_second_, .time_max = absl::Minutes(10)});
    NetworkClock clock(network);
    std::vector<std::unique_ptr<RankParts>> parts(static_cast<size_t>(ranks));
    const auto of = [&](Transport& transport) -> RankParts& {
      auto& own = parts[static_cast<size_t>(transport.rank().value)];
      if (own == nullptr)
        own =
            std::make_unique<RankParts>(topology, transport, trainer_, captured_per_second_, clock);
      return *own;
    };
    std::vector<int> running(static_cast<size_t>(ranks), 2);
    const auto leave = [&](Transport& transport) {
      const auto at = static_cast<size_t>(transport.rank().value);
      if (--running[at] == 0) parts[at].reset();
    };
    network_ = &network;
    table_.clear();
    for (int r = 0; r < ranks; ++r) {
      const ProcessNumber number =
          network.start(Rank(r), View(1),
                        {[&](Transport& transport) {
                           body(of(transport));
                           of(transport).end();
                           leave(transport);
                         },
                         [&](Transport& transport) {
                           const absl::Status served = of(transport).service.run();
                           EXPECT_TRUE(!ends_well || served.ok()) << served;
                           leave(transport);
                         }});
      table_.push_back({SimulatedNetwork::address(number), View(1)});
    }
    EXPECT_TRUE(network.run()) << network.waiting();
  }
  // The training thread does nothing for so long; the service thread goes on.
  void pause(absl::Duration time) { network_->pause(time); }
  absl::Duration now() const { return network_->now(); }
  int64_t bytes_sent() const { return network_->traffic().bytes; }
  PlanOf plan(uint32_t view) const {
    return PlanOf(view, static_cast<int>(table_.size())).at(table_);
  }

  TallyTrainer::Options trainer_;
  double bytes_per_second_ = 0;  // of each process's line; 0: no limit
  double captured_per_second_ = 1 << 30;

 private:
  std::vector<PeerAddress> table_;
  SimulatedNetwork* network_ = nullptr;
};

}  // namespace evermoe
