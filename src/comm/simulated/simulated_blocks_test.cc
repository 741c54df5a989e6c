// Lines between machines that are blocked for a while. Each rank of these tests is a machine.
#include <array>
#include <set>

#include "comm/simulated/simulated_network_testing.h"

namespace evermoe {
namespace {

constexpr absl::Duration kBlocked = absl::Milliseconds(50);

class SimulatedBlocksTest : public SimulatedNetworkTest {
 protected:
  // Nobody misses anybody.
  static SimulatedNetworkOptions patient(uint64_t seed) {
    return {.seed = seed, .silence_min = absl::Hours(1), .silence_max = absl::Hours(2)};
  }
  void block(int from, int to, absl::Duration time = kBlocked) {
    network_->block(Machine(from), Machine(to), time);
  }
  // Connected first; then `bodies`, one for each rank, from the same moment on.
  void begin_together(std::vector<SimulatedNetwork::Thread> bodies, absl::Duration at) {
    for (SimulatedNetwork::Thread& body : bodies) {
      body = [this, at, body = std::move(body)](Transport& transport) {
        network_->pause(at - network_->now());
        body(transport);
        transport.close();
      };
    }
    start_connected(std::move(bodies));
  }
};

TEST_F(SimulatedBlocksTest, WhatIsSentMeanwhileComesAfterwardsInOrder) {
  constexpr absl::Duration kBegin = absl::Milliseconds(20);
  constexpr int kCount = 40;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    make(2, patient(seed));
    int meanwhile = 0;
    const auto sender = [&](Transport& transport) {
      for (int i = 0; i < kCount; ++i) {
        EXPECT_TRUE(send_number(transport, 1, tag(1), i).ok());
        EXPECT_TRUE(send_number(transport, 1, service_tag(), i).ok());
        network_->pause(absl::Milliseconds(2));
      }
    };
    const auto receiver = [&](Transport& transport) {
      for (int i = 0; i < kCount; ++i) {
        EXPECT_EQ(*receive_number(transport, 0, tag(1)), i);
        EXPECT_EQ(number_in(*transport.receive_service_message(kForEver)), i);
        const absl::Duration since = network_->now() - kBegin - absl::Milliseconds(10);
        meanwhile += since > absl::ZeroDuration() && since < kBlocked;
      }
    };
    begin_together({sender, receiver}, kBegin);
    network_->after(kBegin + absl::Milliseconds(10), [&] { block(0, 1); });
    run();
    EXPECT_EQ(meanwhile, 0) << "nothing comes through";
  }
}

TEST_F(SimulatedBlocksTest, TheOtherDirectionAndOtherMachinesGoOn) {
  constexpr absl::Duration kBegin = absl::Milliseconds(20);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    make(3, patient(seed));
    const auto sends = [&](std::vector<int> to, absl::Duration late_from_0) {
      return [&, to, late_from_0](Transport& transport) {
        for (const int other : to) EXPECT_TRUE(send_number(transport, other, tag(1), 7).ok());
        for (const int from : {0, 1, 2}) {
          if (from == transport.rank().value) continue;
          EXPECT_TRUE(receive_number(transport, from, tag(1)).ok());
          if (from == 0) {
            EXPECT_GE(network_->now(), kBegin + late_from_0);
            if (late_from_0 == absl::ZeroDuration()) {
              EXPECT_LT(network_->now(), kBegin + absl::Milliseconds(10));
            }
          }
        }
        // Of rank 1 and 2, although nothing from rank 0 comes to rank 1.
        if (transport.rank() == Rank(0)) {
          EXPECT_LT(network_->now(), kBegin + absl::Milliseconds(10));
        }
      };
    };
    const absl::Duration none = absl::ZeroDuration();
    begin_together({sends({1, 2}, none), sends({0, 2}, kBlocked), sends({0, 1}, none)}, kBegin);
    network_->after(kBegin, [&] { block(0, 1); });
    run();
  }
}

TEST_F(SimulatedBlocksTest, ALongerBlockIsNotShortenedByAShorterOne) {
  make(2, patient(1));
  const absl::Duration begin = absl::Milliseconds(20);
  begin_together({[&](Transport& transport) { EXPECT_TRUE(send(transport, 1, tag(1), {}).ok()); },
                  [&](Transport& transport) {
                    EXPECT_TRUE(receive(transport, 0, tag(1), {}).ok());
                    EXPECT_GE(network_->now(), begin + kBlocked);
                  }},
                 begin);
  network_->after(begin, [&] { block(0, 1); });
  network_->after(begin, [&] { block(0, 1, absl::Milliseconds(5)); });
  run();
}

TEST_F(SimulatedBlocksTest, NewConnectionsWaitForBothDirections) {
  for (const int from : {0, 1}) {
    make(2, patient(3));
    block(from, 1 - from);
    const auto body = [&](Transport& transport) {
      connect_with_all(transport);
      EXPECT_GE(network_->now(), kBlocked);
      EXPECT_LT(network_->now(), kBlocked + absl::Milliseconds(10));
      transport.close();
    };
    start(0, {body});
    start(1, {body});
    run();
  }
}

TEST_F(SimulatedBlocksTest, NewsOfADeathComeAfterwardsAndBehindWhatTheDeadHaveSent) {
  constexpr absl::Duration kBegin = absl::Milliseconds(20);
  for (uint64_t seed = 0; seed < 30; ++seed) {
    make(3, patient(seed));
    const auto survivor = [&](Transport& transport) {
      const bool is_cut_off = transport.rank() == Rank(1);
      if (is_cut_off && seed % 2 == 0) network_->pause(absl::Milliseconds(10));  // nobody waits
      EXPECT_EQ(*receive_number(transport, 0, tag(1)), 5);
      EXPECT_TRUE(accuses(receive(transport, 0, tag(2), {}), 0));
      EXPECT_EQ(network_->now() >= kBegin + kBlocked, is_cut_off);
    };
    const auto dies = [&](Transport& transport) {
      EXPECT_TRUE(send_number(transport, 1, tag(1), 5).ok());
      EXPECT_TRUE(send_number(transport, 2, tag(1), 5).ok());
      network_->kill(process_[0]);
    };
    begin_together({dies, survivor, survivor}, kBegin);
    // Before the death, or between it and the news of it.
    network_->after(kBegin + absl::Microseconds(seed % 3), [&] { block(0, 1); });
    run();
  }
}

TEST_F(SimulatedBlocksTest, AStoppedProcessGetsAllInOrderWhenItGoesOn) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    make(2, patient(seed));
    const absl::Duration begin = absl::Milliseconds(20);
    begin_together({[&](Transport& transport) {
                      for (int i = 0; i < 20; ++i) {
                        EXPECT_TRUE(send_number(transport, 1, tag(1), i).ok());
                        network_->pause(absl::Milliseconds(1));
                      }
                    },
                    [&](Transport& transport) {
                      for (int i = 0; i < 20; ++i)
                        EXPECT_EQ(*receive_number(transport, 0, tag(1)), i);
                    }},
                   begin);
    network_->after(begin, [&] { network_->stop(process_[1]); });
    network_->after(begin + absl::Milliseconds(5), [&] { block(0, 1); });
    network_->after(begin + absl::Milliseconds(12), [&] { network_->go_on(process_[1]); });
    run();
  }
}

// What became of the two ends: which of them lost the other one while the line was blocked.
TEST_F(SimulatedBlocksTest, EitherEndMayMissTheOtherOneOrNeither) {
  const absl::Duration begin = absl::Milliseconds(20);
  for (const bool is_one_way : {false, true}) {
    std::set<std::pair<bool, bool>> seen;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      make(2, {.seed = seed,
               .silence_min = absl::Milliseconds(5),
               .silence_max = absl::Milliseconds(40)});
      std::array<bool, 2> missed{};
      const auto body = [&](Transport& transport) {
        const auto own = static_cast<size_t>(transport.rank().value);
        const int other = 1 - transport.rank().value;
        network_->pause(absl::Milliseconds(1));
        send_number(transport, other, tag(1), 3).IgnoreError();
        const auto got = receive_number(transport, other, tag(1));
        missed[own] = !got.ok() && network_->now() < begin + kBlocked;
        EXPECT_TRUE(got.ok() || accuses(got.status(), other)) << got.status();
        EXPECT_TRUE(got.ok() || !is_one_way || own != 0) << "that direction was never blocked";
        // Once it is lost nothing of it comes any more.
        network_->pause(absl::Milliseconds(200));
        EXPECT_TRUE(got.ok() || accuses(receive(transport, other, tag(1), {}), other));
      };
      begin_together({body, body}, begin);
      network_->after(begin, [&] {
        block(0, 1);
        if (!is_one_way) block(1, 0);
      });
      run();
      seen.insert({missed[0], missed[1]});
      EXPECT_GE(network_->lost_in_silence(), missed[0] + missed[1]);
    }
    EXPECT_TRUE(seen.contains({false, false}));
    EXPECT_TRUE(seen.contains({false, true}));
    if (is_one_way) continue;
    EXPECT_TRUE(seen.contains({true, false}));
    EXPECT_TRUE(seen.contains({true, true}));
  }
}

TEST_F(SimulatedBlocksTest, ABlockShorterThanThePatienceCostsNobody) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    make(2, {.seed = seed, .silence_min = kBlocked, .silence_max = kBlocked});
    const auto body = [&](Transport& transport) {
      const int other = 1 - transport.rank().value;
      for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(send_number(transport, other, tag(1), i).ok());
        EXPECT_EQ(*receive_number(transport, other, tag(1)), i);
        network_->pause(absl::Milliseconds(3));
      }
    };
    begin_together({body, body}, absl::Milliseconds(20));
    for (const int ms : {20, 70, 121}) {  // together they are longer, but what counts is each one
      network_->after(absl::Milliseconds(ms),
                      [&] { block(0, 1, kBlocked - absl::Milliseconds(1)); });
    }
    run();
    EXPECT_EQ(network_->lost_in_silence(), 0);
  }
}

}  // namespace
}  // namespace evermoe
