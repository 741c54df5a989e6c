// The simulated network under stops, cuts, revocations and kills.
#include "comm/simulated/simulated_network_testing.h"

namespace evermoe {
namespace {

using SimulatedFaultsTest = SimulatedNetworkTest;

TEST_F(SimulatedFaultsTest, AKillWhileConnectionsAreMadeAccusesTheDead) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    make(3, {.seed = seed, .delay_max = absl::Milliseconds(10)});
    const auto survivor = [&](Transport& transport) {
      know_all(transport);
      const int other = 1 - transport.rank().value;
      const absl::Status status = send(transport, 2, tag(3), {});
      EXPECT_TRUE(status.ok() || accuses(status, 2)) << status;
      EXPECT_TRUE(accuses(receive(transport, 2, tag(1), {}), 2));
      EXPECT_TRUE(transport.set_peers({table_[0], table_[1], {}}).ok());
      EXPECT_TRUE(send_number(transport, other, tag(2), 1).ok());
      EXPECT_TRUE(receive_number(transport, other, tag(2)).ok());
      transport.close();
    };
    start(0, {survivor});
    start(1, {survivor});
    start(2, {[&](Transport& transport) {
            network_->pause(absl::Microseconds(network_->draw(10'000)));
            transport.set_peers(table_).IgnoreError();
            EXPECT_TRUE(absl::IsCancelled(transport.receive_service_message(kForEver).status()));
          }});
    network_->after(absl::Microseconds(network_->draw(15'000)),
                    [&] { network_->kill(process_[2]); });
    run();
  }
}

TEST_F(SimulatedFaultsTest, AThreadKilledBeforeItsFirstTurnDoesNotRun) {
  make(1);
  start(0, {[](Transport&) { ADD_FAILURE(); }});
  network_->kill(process_[0]);
  run();
}

TEST_F(SimulatedFaultsTest, WhatTheDeadWereAboutToGetIsCancelledToo) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    make(1, {.seed = seed});
    start(0,
          {[&](Transport& transport) {
             const absl::Status status = receive(transport, 0, tag(1), {});
             EXPECT_EQ(status.ok(), network_->lives(process_[0])) << status;
           },
           [&](Transport& transport) {
             if (receive(transport, 0, tag(2), {}).ok()) network_->kill(process_[0]);
           },
           [&](Transport& transport) {
             for (uint32_t i = 1; i <= 2; ++i) send(transport, 0, tag(i), {}).IgnoreError();
             network_->stop(process_[0]);  // so that both arrive in one moment
             EXPECT_TRUE(absl::IsCancelled(transport.receive_service_message(kForEver).status()));
           }});
    network_->after(absl::Seconds(1), [&] { network_->go_on(process_[0]); });
    run();
  }
}

TEST_F(SimulatedFaultsTest, AnAgentReplacesWhatEnds) {
  make(1);
  int lives = 0;
  const std::function<void()> launch = [&] {
    const int life = ++lives;
    const ProcessNumber process = start(
        0, {[&, life](Transport& transport) {
          if (life == 3) return;
          EXPECT_TRUE(absl::IsCancelled(transport.receive_service_message(kForEver).status()));
        }},
        static_cast<uint32_t>(life));
    network_->on_end(process, [&, process] {
      EXPECT_FALSE(network_->lives(process));
      if (lives < 3) launch();
    });
    if (life < 3) network_->after(absl::Seconds(1), [&, process] { network_->kill(process); });
  };
  launch();
  run();
  EXPECT_EQ(lives, 3);
}

TEST_F(SimulatedFaultsTest, AStoppedProcessGoesOnWhereItWasAndMessagesHaveWaited) {
  make(2, {.seed = 2});
  start_connected(
      {[&](Transport& transport) {
         EXPECT_EQ(*receive_number(transport, 1, tag(1), absl::Seconds(2)), 1)
             << "the message waited, too";
         EXPECT_GE(network_->now(), absl::Seconds(10));
         transport.close();
       },
       [&](Transport& transport) {
         EXPECT_TRUE(absl::IsDeadlineExceeded(
             transport.receive_service_message(absl::Seconds(1)).status()));
         EXPECT_TRUE(send_number(transport, 0, tag(1), 1).ok());
         const std::vector<std::byte> large(1 << 20);
         EXPECT_TRUE(absl::IsDeadlineExceeded(send(transport, 0, tag(2), large, absl::Seconds(1))))
             << "nobody takes it";
         EXPECT_TRUE(absl::IsCancelled(receive(transport, 0, tag(1), {})));
         EXPECT_GE(network_->now(), absl::Seconds(10));
       }});
  network_->after(absl::Milliseconds(500), [&] { network_->stop(process_[0]); });
  network_->after(absl::Seconds(10), [&] { network_->go_on(process_[0]); });
  run();
}

TEST_F(SimulatedFaultsTest, AStoppedProcessCanBeKilled) {
  make(2);
  start_connected(
      {[](Transport& transport) {
         EXPECT_TRUE(absl::IsCancelled(transport.receive_service_message(kForEver).status()));
       },
       [](Transport& transport) { EXPECT_TRUE(accuses(receive(transport, 0, tag(1), {}), 0)); }});
  network_->after(absl::Seconds(1), [&] { network_->stop(process_[0]); });
  network_->after(absl::Seconds(2), [&] { network_->kill(process_[0]); });
  run();
}

TEST_F(SimulatedFaultsTest, AThreadThatStopsItsProcessStopsAtItsNextCall) {
  make(1, {.switch_at_every_call = false});
  start(0, {[&](Transport& transport) {
          network_->after(absl::Seconds(5), [&] { network_->go_on(process_[0]); });
          network_->stop(process_[0]);
          EXPECT_EQ(network_->now(), absl::ZeroDuration());
          EXPECT_TRUE(send(transport, 0, tag(1), {}).ok());
          EXPECT_EQ(network_->now(), absl::Seconds(5));
        }});
  run();
}

TEST_F(SimulatedFaultsTest, ACutIsALossForBothAndANewerViewJoinsThemAgain) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    make(3, {.seed = seed});
    int lost = 0;
    const auto body = [&](Transport& transport) {
      const int own = transport.rank().value;
      const int other = 1 - own;
      if (own == 2) {
        EXPECT_TRUE(
            absl::IsDeadlineExceeded(transport.receive_service_message(absl::Seconds(3)).status()));
      } else {
        EXPECT_TRUE(accuses(receive(transport, other, tag(1), {}), other));
        know_all(transport);
        EXPECT_TRUE(accuses(receive(transport, other, tag(1), {}), other))
            << "the table is the old one";
        EXPECT_TRUE(send(transport, 2, tag(2), {}).ok()) << "the others are not concerned";
        ++lost;
        EXPECT_TRUE(
            absl::IsDeadlineExceeded(transport.receive_service_message(absl::Seconds(2)).status()));
      }
      EXPECT_EQ(lost, 2);
      transport.revoke(View(1), Cancelled("over"));
      table_[1].since = View(2);  // whoever comes first
      know_all(transport);
      for (int to = 0; to < 3; ++to) EXPECT_TRUE(send_number(transport, to, tag(3, 2), own).ok());
      for (int from = 0; from < 3; ++from)
        EXPECT_EQ(*receive_number(transport, from, tag(3, 2)), from);
      transport.close();
    };
    start_connected({body, body, body});
    network_->after(absl::Milliseconds(500), [&] { network_->cut(process_[0], process_[1]); });
    run();
  }
}

TEST_F(SimulatedFaultsTest, WhatTravelsWhenTheConnectionIsCutIsLost) {
  make(2, {.delay_max = absl::Seconds(1000)});
  start_connected({[&](Transport& transport) {
                     network_->pause(
                         absl::Seconds(2000));  // until the other one has all hellos, too
                     EXPECT_TRUE(send_number(transport, 1, tag(1), 1).ok());
                     network_->cut(process_[0], process_[1]);
                     EXPECT_TRUE(accuses(receive(transport, 1, tag(1), {}), 1));
                   },
                   [](Transport& transport) {
                     EXPECT_TRUE(accuses(receive_number(transport, 0, tag(1)).status(), 0));
                     EXPECT_FALSE(transport.receive_service_message(absl::Seconds(2000)).ok());
                     EXPECT_TRUE(accuses(receive_number(transport, 0, tag(1)).status(), 0))
                         << "it does not come later, either";
                   }});
  run();
}

TEST_F(SimulatedFaultsTest, WhatTravelsFromAFormerProcessIsDropped) {
  make(2, {.delay_max = absl::Seconds(1000)});
  start_connected(
      {[&](Transport& transport) {
         auto pending = transport.start_receive(Rank(1), tag(2), {});
         EXPECT_EQ(transport.receive_service_message(kForEver)->tag, service_tag(0));
         know_all(transport);
         EXPECT_TRUE(accuses(transport.wait(std::move(pending), kForEver), 1));
         const auto service_message = transport.receive_service_message(absl::Seconds(5000));
         ASSERT_TRUE(service_message.ok());
         EXPECT_EQ(service_message->tag, service_tag(2));
         EXPECT_FALSE(transport.receive_service_message(absl::Seconds(5000)).ok());
         const absl::Status status = receive(transport, 1, tag(1), {}, absl::Seconds(1));
         EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
       },
       [&](Transport& transport) {
         network_->pause(absl::Seconds(2000));  // until the other one has all hellos, too
         EXPECT_TRUE(send(transport, 0, tag(1), {}).ok());
         EXPECT_TRUE(send(transport, 0, service_tag(1), {}).ok());
         start(1, {[&](Transport& replacement) {
                 know_all(replacement);
                 EXPECT_TRUE(send(replacement, 0, service_tag(2), {}).ok());
                 EXPECT_TRUE(accuses(receive(replacement, 0, tag(1, 2), {}), 0));
               }},
               2);
         network_->deliver(process_[0], service_tag(0), {});
         EXPECT_TRUE(accuses(receive(transport, 0, tag(1), {}, absl::Seconds(1001)), 0))
             << "it has turned away";
       }});
  run();
}

TEST_F(SimulatedFaultsTest, RevokedGroupsAreOverAndTheOthersGoOn) {
  make(2, {.seed = 3});
  start_connected({[&](Transport& transport) {
                     auto inside = transport.start_receive(Rank(1), tag(1, 1, 10), {});
                     auto inside_later = transport.start_receive(Rank(1), tag(1, 2, 10), {});
                     auto outside = transport.start_receive(Rank(1), tag(1, 1, 20), {});
                     transport.revoke({10, 19}, View(1), Cancelled("stage"));
                     EXPECT_EQ(transport.wait(std::move(inside), kForEver).message(), "stage");
                     EXPECT_EQ(send(transport, 1, tag(5, 1, 19), {}).message(), "stage");
                     EXPECT_TRUE(send(transport, 1, tag(5), {}).ok());
                     EXPECT_TRUE(transport.wait(std::move(outside), kForEver).ok());
                     transport.revoke({0, 9}, View(3), Cancelled("world"));
                     EXPECT_EQ(send(transport, 1, tag(5, 3), {}).message(), "world");
                     EXPECT_TRUE(transport.wait(std::move(inside_later), kForEver).ok());
                     transport.revoke({0, kServiceGroup}, View(9), Cancelled("all"));
                     EXPECT_TRUE(send(transport, 1, service_tag(), {}).ok())
                         << "service messages are not revoked";
                     transport.close();
                   },
                   [](Transport& transport) {
                     EXPECT_TRUE(send(transport, 0, tag(1, 1, 10), {}).ok());
                     EXPECT_TRUE(receive(transport, 0, tag(5), {}).ok());
                     EXPECT_TRUE(send(transport, 0, tag(1, 1, 20), {}).ok());
                     EXPECT_TRUE(send(transport, 0, tag(1, 2, 10), {}).ok());
                     EXPECT_TRUE(transport.receive_service_message(kForEver).ok());
                     transport.close();
                   }});
  run();
}

TEST_F(SimulatedFaultsTest, RevokeWakesTheOtherThread) {
  make(1);
  start(0, {[](Transport& transport) {
              EXPECT_EQ(receive(transport, 0, tag(1), {}).message(), "over");
            },
            [](Transport& transport) {
              EXPECT_FALSE(transport.receive_service_message(absl::Seconds(1)).ok());
              transport.revoke(View(1), Cancelled("over"));
            }});
  run();
}

TEST_F(SimulatedFaultsTest, ServiceMessagesWaitForRoomAndArrivedOnesOutliveTheirSender) {
  make(2, {.seed = 5});
  const std::vector<std::byte> large(Transport::kServiceBytesMax / 2);
  bool sent_third = false;
  start_connected(
      {[&](Transport& transport) {
         EXPECT_TRUE(absl::IsDeadlineExceeded(receive(transport, 0, tag(1), {}, absl::Seconds(5))));
         EXPECT_FALSE(sent_third);
         for (uint32_t i = 0; i < 3; ++i)
           EXPECT_EQ(transport.receive_service_message(kForEver)->tag, service_tag(i));
         EXPECT_TRUE(accuses(receive(transport, 1, tag(1), {}), 1));
         EXPECT_EQ(transport.receive_service_message(kForEver)->tag, service_tag(3));
         EXPECT_TRUE(absl::IsDeadlineExceeded(
             transport.receive_service_message(absl::Seconds(1)).status()));
       },
       [&](Transport& transport) {
         for (uint32_t i = 0; i < 2; ++i)
           EXPECT_TRUE(send(transport, 0, service_tag(i), large).ok());
         EXPECT_TRUE(send(transport, 0, service_tag(2), large).ok());
         sent_third = true;
         EXPECT_TRUE(send(transport, 0, service_tag(3), {}).ok());
       }});
  run();
}

TEST_F(SimulatedFaultsTest, AGoodbyeIsNoAccusation) {
  make(2);
  start_connected(
      {[](Transport& transport) {
         transport.close();
         EXPECT_TRUE(absl::IsCancelled(transport.receive_service_message(kForEver).status()));
       },
       [&](Transport& transport) {
         EXPECT_TRUE(absl::IsCancelled(receive(transport, 0, tag(1), {})));
         know_all(transport);
         EXPECT_TRUE(absl::IsCancelled(send(transport, 0, tag(1), {}))) << "it has left";
       }});
  run();
}

}  // namespace
}  // namespace evermoe
