// The simulated network: messages, service messages, threads, events, kills and how runs end.
// Stops, cuts and random faults are in simulated_faults_test.cc.
#include "comm/simulated/simulated_network_testing.h"

namespace evermoe {
namespace {

TEST_F(SimulatedNetworkTest, MessagesOfOneTagComeInOrderAndTakeTime) {
  make(2, {.seed = 1, .delay_max = absl::Seconds(1)});
  start_connected({[](Transport& transport) {
                     for (int i = 0; i < 50; ++i)
                       EXPECT_TRUE(send_number(transport, 1, tag(7), i).ok());
                     transport.close();
                   },
                   [](Transport& transport) {
                     for (int i = 0; i < 50; ++i)
                       EXPECT_EQ(*receive_number(transport, 0, tag(7)), i);
                     transport.close();
                   }});
  run();
  EXPECT_GT(network_->now(), absl::Milliseconds(500));
  EXPECT_LT(network_->now(), absl::Seconds(4));
}

TEST_F(SimulatedNetworkTest, WhatGoesOverASlowLineTakesLonger) {
  make(2, {.seed = 1, .delay_max = absl::Milliseconds(1)});
  network_->slow_down(Machine(0), Machine(1), absl::Seconds(1), absl::Seconds(2));
  absl::Duration there, back;
  start_connected({[&](Transport& transport) {
                     there = network_->now();
                     EXPECT_TRUE(send(transport, 1, tag(1), std::vector<std::byte>(3)).ok());
                     EXPECT_TRUE(receive(transport, 1, tag(2), {}).ok());
                     back = network_->now() - back;
                     transport.close();
                   },
                   [&](Transport& transport) {
                     std::vector<std::byte> into(3);
                     EXPECT_TRUE(receive(transport, 0, tag(1), into).ok());
                     back = network_->now();
                     there = back - there;
                     EXPECT_TRUE(send(transport, 0, tag(2), {}).ok());
                     transport.close();
                   }});
  run();
  EXPECT_GE(there, absl::Seconds(7));
  EXPECT_LT(there, absl::Seconds(7.1));
  EXPECT_LT(back, absl::Milliseconds(10));
}

TEST_F(SimulatedNetworkTest, WithoutATableNobodyIsThere) {
  make(2);
  start(0, {[](Transport& transport) {
          EXPECT_TRUE(accuses(send(transport, 1, tag(1), {}), 1));
          EXPECT_TRUE(accuses(receive(transport, 1, tag(1), {}), 1));
          EXPECT_TRUE(send_number(transport, 0, tag(1), 5).ok());
          EXPECT_EQ(*receive_number(transport, 0, tag(1)), 5);
        }});
  run();
}

TEST_F(SimulatedNetworkTest, ServiceMessagesComeFromAnybodyInOrderOfEachSender) {
  make(3, {.seed = 2});
  constexpr int kService = 20;
  const auto write = [](Transport& transport) {
    for (int64_t i = 0; i < kService; ++i) {
      const std::vector<int64_t> number{100 * transport.rank().value + i};
      EXPECT_TRUE(send(transport, 0, service_tag(static_cast<uint32_t>(i)),
                       std::as_bytes(std::span(number)))
                      .ok());
    }
    if (transport.rank() != Rank(0)) transport.close();
  };
  std::vector<std::vector<int64_t>> from(3);
  start_connected({[&](Transport& transport) {
                     write(transport);
                     for (int i = 0; i < 3 * kService; ++i) {
                       const auto service_message = transport.receive_service_message(kForEver);
                       ASSERT_TRUE(service_message.ok()) << service_message.status();
                       EXPECT_EQ(number_in(*service_message) % 100, service_message->tag.purpose);
                       from[static_cast<size_t>(service_message->from.value)].push_back(
                           number_in(*service_message));
                     }
                     EXPECT_TRUE(absl::IsDeadlineExceeded(
                         transport.receive_service_message(absl::Seconds(1)).status()));
                   },
                   write, write});
  run();
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(from[static_cast<size_t>(rank)].size(), size_t{kService});
    for (size_t i = 0; i < kService; ++i)
      EXPECT_EQ(from[static_cast<size_t>(rank)][i], 100 * rank + static_cast<int>(i));
  }
}

TEST_F(SimulatedNetworkTest, EventsDeliverServiceMessages) {
  make(1);
  const ProcessNumber process = start(0, {[&](Transport& transport) {
                                        EXPECT_EQ(network_->running_process(), process_[0]);
                                        const auto service_message =
                                            transport.receive_service_message(kForEver);
                                        ASSERT_TRUE(service_message.ok());
                                        EXPECT_EQ(service_message->from, Rank(0));
                                        EXPECT_EQ(service_message->tag, service_tag(9));
                                        EXPECT_EQ(service_message->size, 3u);
                                        EXPECT_EQ(network_->now(), absl::Seconds(2));
                                      }});
  network_->after(absl::Seconds(2), [&] {
    EXPECT_EQ(network_->running_process(), std::nullopt);
    network_->deliver(process, service_tag(9), std::vector<std::byte>(3));
  });
  network_->after(absl::Seconds(3), [&] { network_->deliver(process, service_tag(9), {}); });
  run();
}

TEST_F(SimulatedNetworkTest, ThreadsOfAProcessSignalEachOther) {
  make(1, {.seed = 3});
  std::vector<int> order;
  start(0, {[&](Transport& transport) {
              for (uint32_t i = 0; i < 10; ++i) {
                order.push_back(0);
                EXPECT_TRUE(send(transport, 0, tag(2 * i), {}).ok());
                EXPECT_TRUE(receive(transport, 0, tag(2 * i + 1), {}).ok());
              }
            },
            [&](Transport& transport) {
              for (uint32_t i = 0; i < 10; ++i) {
                EXPECT_TRUE(receive(transport, 0, tag(2 * i), {}).ok());
                order.push_back(1);
                EXPECT_TRUE(send(transport, 0, tag(2 * i + 1), {}).ok());
              }
            }});
  run();
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int>(i % 2));
  EXPECT_EQ(order.size(), 20u);
}

TEST_F(SimulatedNetworkTest, AKillWakesItsThreadsAndItsPeers) {
  make(2, {.seed = 4});
  int cancelled = 0;
  bool peer_knows = false;
  bool agent_knows = false;
  start(0, {[&](Transport& transport) {
              know_all(transport);
              EXPECT_TRUE(send_number(transport, 1, tag(1), 11).ok());
              cancelled += absl::IsCancelled(receive(transport, 1, tag(2), {}));
              cancelled += absl::IsCancelled(send(transport, 1, tag(1), {}));
            },
            [&](Transport& transport) {
              cancelled += absl::IsCancelled(transport.receive_service_message(kForEver).status());
            }});
  start(1, {[&](Transport& transport) {
          know_all(transport);
          EXPECT_TRUE(accuses(receive(transport, 0, tag(9), {}), 0));
          EXPECT_EQ(*receive_number(transport, 0, tag(1)), 11) << "sent before the death";
          EXPECT_TRUE(accuses(send(transport, 0, tag(9), {}), 0));
          EXPECT_LE(network_->now(), absl::Seconds(1) + absl::Milliseconds(5));
          peer_knows = true;
        }});
  network_->on_end(process_[0], [&] { agent_knows = true; });
  network_->after(absl::Seconds(1), [&] {
    EXPECT_TRUE(network_->lives(process_[0]));
    network_->kill(process_[0]);
    EXPECT_FALSE(network_->lives(process_[0]));
  });
  run();
  EXPECT_EQ(cancelled, 3);
  EXPECT_TRUE(peer_knows);
  EXPECT_TRUE(agent_knows);
}

TEST_F(SimulatedNetworkTest, AThreadThatKillsItsProcessSeesCancelled) {
  make(1);
  start(0, {[&](Transport& transport) {
          EXPECT_TRUE(send(transport, 0, tag(1), {}).ok());
          network_->kill(*network_->running_process());
          EXPECT_TRUE(absl::IsCancelled(receive(transport, 0, tag(1), {})));
          EXPECT_TRUE(absl::IsCancelled(transport.set_peers(table_)));
        }});
  run();
}

TEST_F(SimulatedNetworkTest, ALargeSendOfTheDeadIsDropped) {
  make(2, {.seed = 5, .delay_max = absl::Seconds(10)});
  start_connected({[&](Transport& transport) {
                     const std::vector<std::byte> large(1 << 20);
                     auto sending = transport.start_send(Rank(1), tag(1), large);
                     network_->kill(process_[0]);
                     EXPECT_TRUE(absl::IsCancelled(transport.wait(std::move(sending), kForEver)));
                   },
                   [](Transport& transport) {
                     std::vector<std::byte> large(1 << 20);
                     EXPECT_TRUE(accuses(receive(transport, 0, tag(1), large), 0));
                   }});
  run();
}

TEST_F(SimulatedNetworkTest, AReplacementJoinsAndGetsNothingOfTheFormer) {
  make(2, {.seed = 6});
  start(0, {[&](Transport& transport) {
          connect_with_all(transport);
          EXPECT_TRUE(send_number(transport, 1, tag(5), 1).ok());
          EXPECT_TRUE(accuses(receive(transport, 1, tag(1), {}), 1));
          know_all(transport);
          EXPECT_TRUE(accuses(receive(transport, 1, tag(1), {}), 1))
              << "the former one is still in the table";
          start(1, {[&](Transport& replacement) {
                  know_all(replacement);
                  EXPECT_EQ(*receive_number(replacement, 0, tag(5, 2)), 2);
                  EXPECT_TRUE(absl::IsDeadlineExceeded(
                      receive(replacement, 0, tag(5), {}, absl::Seconds(1))));
                  EXPECT_TRUE(send_number(replacement, 0, tag(6, 2), 3).ok());
                  replacement.close();
                }},
                2);
          transport.revoke(View(1), Cancelled("view 1 is over"));
          know_all(transport);
          EXPECT_TRUE(send_number(transport, 1, tag(5, 2), 2).ok());
          EXPECT_EQ(*receive_number(transport, 1, tag(6, 2)), 3);
          transport.close();
        }});
  start(1, {[&](Transport& transport) {
          connect_with_all(transport);
          network_->kill(process_[1]);
        }});
  run();
}

TEST_F(SimulatedNetworkTest, TheDeadAreAccusedAndTheSilentAreATimeout) {
  make(3);
  start(0, {[&](Transport& transport) {
          know_all(transport);
          EXPECT_TRUE(accuses(receive(transport, 1, tag(1), {}), 1)) << "it died meanwhile";
          EXPECT_TRUE(accuses(send(transport, 1, tag(1), {}), 1));
          const absl::Status silent = send(transport, 2, tag(9), {}, absl::Seconds(1));
          EXPECT_TRUE(absl::IsDeadlineExceeded(silent)) << silent;
          EXPECT_EQ(accused_rank(silent), Rank(2));
          EXPECT_EQ(*receive_number(transport, 2, tag(1)), 4);
          transport.close();
        }});
  start(1,
        {[](Transport& transport) { transport.receive_service_message(kForEver).IgnoreError(); }});
  start(2, {[&](Transport& transport) {
          EXPECT_TRUE(absl::IsDeadlineExceeded(
              transport.receive_service_message(absl::Seconds(5)).status()));
          know_all(transport);
          EXPECT_TRUE(accuses(receive(transport, 1, tag(1), {}), 1)) << "it died long ago";
          EXPECT_TRUE(send_number(transport, 0, tag(1), 4).ok());
          transport.close();
        }});
  network_->after(absl::Milliseconds(10), [&] { network_->kill(process_[1]); });
  run();
}

TEST_F(SimulatedNetworkTest, OnlyThoseAreConnectedWhoExchangeSomething) {
  make(64);
  for (int i = 0; i < 64; ++i) {
    start(i, {[&](Transport& transport) {
            know_all(transport);
            const int own = transport.rank().value;
            auto sending = transport.start_send(Rank((own + 1) % 64), tag(1), {});
            EXPECT_TRUE(receive(transport, (own + 63) % 64, tag(1), {}).ok());
            EXPECT_TRUE(transport.wait(std::move(sending), kForEver).ok());
            // With those of a lower rank.
            EXPECT_EQ(transport.connections_opened(), own == 0 ? 0 : own == 63 ? 2 : 1);
            transport.close();
          }});
  }
  run();
  EXPECT_EQ(network_->traffic().connections, 64);
}

// Of sends that wait for a connection.
TEST_F(SimulatedNetworkTest, WhatWaitsForAConnectionIsWithdrawnRevokedAndDropped) {
  make(2);
  const std::vector<std::byte> large(1 << 20);
  start(
      0, {[&](Transport& transport) {
        know_all(transport);
        EXPECT_TRUE(absl::IsDeadlineExceeded(send(transport, 1, tag(1), large, absl::Seconds(1))));
        auto of_the_view = transport.start_send(Rank(1), tag(2), large);
        auto later = transport.start_send(Rank(1), tag(3, 2), large);
        transport.revoke(View(1), Cancelled("view 1 is over"));
        EXPECT_EQ(transport.wait(std::move(of_the_view), kForEver).message(), "view 1 is over");
        EXPECT_TRUE(transport.wait(std::move(later), kForEver).ok());
        EXPECT_GE(network_->now(), absl::Seconds(10));
        transport.close();
      }});
  start(1, {[&](Transport& transport) {
          network_->pause(absl::Seconds(10));
          know_all(transport);
          std::vector<std::byte> into(large.size());
          EXPECT_TRUE(receive(transport, 0, tag(3, 2), into).ok());
          EXPECT_TRUE(absl::IsCancelled(receive(transport, 0, tag(1), into)));
          transport.close();
        }});
  run();
}

TEST_F(SimulatedNetworkTest, TwoNewcomersAtOnce) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    make(4, {.seed = seed});
    const auto veteran = [&](Transport& transport) {
      know_all(transport);
      const bool first = transport.rank() == Rank(0);
      for (int dead : {2, 3}) EXPECT_TRUE(accuses(receive(transport, dead, tag(1), {}), dead));
      const auto everybody = [&](Transport& self) {
        for (int other = 0; other < 4; ++other)
          EXPECT_TRUE(send_number(self, other, tag(2, 2), self.rank().value).ok());
        for (int other = 0; other < 4; ++other)
          EXPECT_EQ(*receive_number(self, other, tag(2, 2)), other);
        self.close();
      };
      const auto newcomer = [&, everybody](Transport& self) {
        know_all(self);
        everybody(self);
      };
      if (first) {
        start(2, {newcomer}, 2);
        start(3, {newcomer}, 2);
        EXPECT_TRUE(send(transport, 1, tag(3), {}).ok());
      } else {
        EXPECT_TRUE(receive(transport, 0, tag(3), {}).ok());
      }
      know_all(transport);
      everybody(transport);
    };
    const auto victim = [&](Transport& transport) {
      know_all(transport);
      EXPECT_FALSE(transport.receive_service_message(absl::Seconds(1)).ok());
    };
    start(0, {veteran});
    start(1, {veteran});
    start(2, {victim});
    start(3, {victim});
    run();
  }
}

TEST_F(SimulatedNetworkTest, EventsRunInOrderAndEndStopsEverything) {
  make(1);
  std::vector<int> order;
  start(0, {[](Transport& transport) {
              EXPECT_TRUE(absl::IsCancelled(transport.receive_service_message(kForEver).status()));
            },
            [](Transport& transport) {
              EXPECT_TRUE(absl::IsCancelled(receive(transport, 0, tag(1), {})));
            }});
  network_->after(absl::Seconds(2), [&] { order.push_back(3); });
  network_->after(absl::Seconds(1), [&] {
    order.push_back(1);
    network_->after(absl::ZeroDuration(), [&] { order.push_back(2); });
  });
  network_->after(absl::Seconds(2), [&] { order.push_back(4); });
  network_->after(absl::Seconds(3), [&] { network_->end(); });
  network_->after(absl::Seconds(4), [&] { order.push_back(5); });
  run();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(network_->now(), absl::Seconds(3));
}

TEST_F(SimulatedNetworkTest, AJobWithoutEndEndsAtTheLongestTime) {
  make(1, {.time_max = absl::Seconds(1)});
  start(0, {[](Transport& transport) {
          while (
              !absl::IsCancelled(transport.receive_service_message(absl::Milliseconds(1)).status()))
            continue;
        }});
  EXPECT_FALSE(network_->run());
  EXPECT_LE(network_->now(), absl::Seconds(1));
}

TEST_F(SimulatedNetworkTest, ADeadlockIsReported) {
  make(2);
  start_connected(
      {[](Transport& transport) { EXPECT_FALSE(receive(transport, 1, tag(77), {}).ok()); },
       [](Transport& transport) {
         EXPECT_FALSE(transport.receive_service_message(kForEver).ok());
       }});
  EXPECT_FALSE(network_->run());
  EXPECT_NE(network_->waiting().find("rank 0 receives from rank 1 (view 1, group 0, purpose 77)"),
            std::string::npos)
      << network_->waiting();
  EXPECT_NE(network_->waiting().find("rank 1 receives service messages"), std::string::npos)
      << network_->waiting();
}

TEST_F(SimulatedNetworkTest, ANetworkThatIsNeverRunIsDestroyed) {
  make(1);
  start(0, {[](Transport&) { ADD_FAILURE(); }});
}

}  // namespace
}  // namespace evermoe
