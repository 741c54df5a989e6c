// The contract of transport.h, over all transports within one process. Deaths are in
// process_test.cc.
#include "comm/transport/transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/transport/frame.h"
#include "comm/transport/host_address.h"
#include "comm/transport/rank_threads_testing.h"
#include "comm/transport/transport_testing.h"
#include "comm/unix/unix_connect.h"

namespace evermoe {
namespace {

class TransportTest : public testing::TestWithParam<TransportKind> {
 protected:
  // Rank 0 and rank 1 run different bodies.
  void run_pair(const RankBody& zero, const RankBody& one) {
    run_ranks(GetParam(), 2,
              [&](Transport& transport) { (transport.rank() == Rank(0) ? zero : one)(transport); });
  }
};
// Transports that are used by several threads of a rank.
class ThreadedTransportTest : public TransportTest {};

TEST_P(TransportTest, MessagesOfOneTagArriveInTheOrderSent) {
  run_pair(
      [](Transport& transport) {
        for (int i = 0; i < 200; ++i)
          EXPECT_TRUE(send(transport, 1, tag(1), bytes_of(static_cast<size_t>(i * 37), i)).ok());
      },
      [](Transport& transport) {
        for (int i = 0; i < 200; ++i)
          EXPECT_TRUE(gets(transport, 0, tag(1), static_cast<size_t>(i * 37), i)) << i;
      });
}

TEST_P(TransportTest, MessagesMayBeTakenInAnotherOrderThanSent) {
  run_pair(
      [](Transport& transport) {
        std::vector<std::vector<std::byte>> messages;
        std::vector<std::unique_ptr<TransportOperation>> sends;
        for (uint32_t i = 0; i < 20; ++i)
          messages.push_back(bytes_of(i % 3 == 0 ? 500'000 : 100 * i, static_cast<int>(i)));
        for (uint32_t i = 0; i < 20; ++i)
          sends.push_back(transport.start_send(Rank(1), tag(i), messages[i]));
        for (auto& operation : sends)
          EXPECT_TRUE(transport.wait(std::move(operation), kPatience).ok());
      },
      [](Transport& transport) {
        for (uint32_t i = 20; i-- > 0;) {
          EXPECT_TRUE(
              gets(transport, 0, tag(i), i % 3 == 0 ? 500'000 : 100 * i, static_cast<int>(i)))
              << i;
        }
      });
}

TEST_P(TransportTest, TwoRanksThatBothSendMuchBeforeTheyReceiveGetThrough) {
  run_ranks(GetParam(), 2, [](Transport& transport) {
    const int own = transport.rank().value;
    const auto message = bytes_of(20 << 20, own);
    if (GetParam() == TransportKind::kUcx) {
      // UCX moves a large message only once its receive is posted; sending first is fine there,
      // too, as long as nobody waits for it.
      auto sending = transport.start_send(Rank(1 - own), tag(1), message);
      EXPECT_TRUE(gets(transport, 1 - own, tag(1), message.size(), 1 - own));
      EXPECT_TRUE(transport.wait(std::move(sending), kPatience).ok());
      return;
    }
    EXPECT_TRUE(send(transport, 1 - own, tag(1), message).ok());
    EXPECT_TRUE(gets(transport, 1 - own, tag(1), message.size(), 1 - own));
  });
}

TEST_P(TransportTest, ALargeUnexpectedMessageDoesNotBlockTheOneBehindIt) {
  run_pair(
      [](Transport& transport) {
        const auto large = bytes_of(3 << 20, 1);
        auto sending = transport.start_send(Rank(1), tag(1), large);
        EXPECT_TRUE(send(transport, 1, tag(2), bytes_of(10, 2)).ok());
        EXPECT_TRUE(transport.wait(std::move(sending), kPatience).ok());
      },
      [](Transport& transport) {
        EXPECT_TRUE(gets(transport, 0, tag(2), 10, 2));
        EXPECT_TRUE(gets(transport, 0, tag(1), 3 << 20, 1));
      });
}

TEST_P(TransportTest, ARankSendsToItself) {
  run_ranks(GetParam(), 1, [](Transport& transport) {
    const auto message = bytes_of(1000, 3);
    EXPECT_TRUE(send(transport, 0, tag(1), message).ok());
    EXPECT_TRUE(gets(transport, 0, tag(1), 1000, 3));
    std::vector<std::byte> into(1000);
    auto receiving = transport.start_receive(Rank(0), tag(2), into);
    EXPECT_TRUE(send(transport, 0, tag(2), message).ok());
    EXPECT_TRUE(transport.wait(std::move(receiving), kPatience).ok());
    EXPECT_EQ(into, message);
  });
}

TEST_P(TransportTest, TimeoutNamesTheSilentRankAndTheMessageMayStillCome) {
  run_pair(
      [](Transport& transport) {
        std::byte byte;
        const absl::Status status =
            receive(transport, 1, tag(1), {&byte, 1}, absl::Milliseconds(20));
        EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
        EXPECT_EQ(accused_rank(status), Rank(1));
        EXPECT_TRUE(send(transport, 1, tag(2), {}).ok());
        EXPECT_TRUE(gets(transport, 1, tag(3), 100, 5));
      },
      [](Transport& transport) {
        EXPECT_TRUE(receive(transport, 0, tag(2), {}).ok());
        EXPECT_TRUE(send(transport, 0, tag(3), bytes_of(100, 5)).ok());
      });
}

TEST_P(TransportTest, WhatWasSentBeforeTheGoodbyeArrivesAndThenTheRankHasLeft) {
  run_pair(
      [](Transport& transport) { EXPECT_TRUE(send(transport, 1, tag(1), bytes_of(5000, 1)).ok()); },
      [](Transport& transport) {
        std::byte byte;
        const absl::Status left = receive(transport, 0, tag(9), {&byte, 1});
        EXPECT_TRUE(absl::IsCancelled(left)) << left;
        EXPECT_TRUE(gets(transport, 0, tag(1), 5000, 1));
        EXPECT_TRUE(absl::IsCancelled(receive(transport, 0, tag(1), {&byte, 1})));
        EXPECT_TRUE(absl::IsCancelled(send(transport, 0, tag(1), {&byte, 1})));
      });
}

TEST_P(TransportTest, ARevokedViewIsOverAndLaterViewsWork) {
  run_pair(
      [](Transport& transport) {
        const auto large = bytes_of(4 << 20, 1);
        auto sending = transport.start_send(Rank(1), tag(1), large);
        auto small = transport.start_send(Rank(1), tag(2), std::span(large).first(10));
        std::byte byte;
        auto receiving = transport.start_receive(Rank(1), tag(3), {&byte, 1});
        transport.revoke(View(1), Cancelled("the view is over"));
        transport.wait(std::move(sending), kPatience).IgnoreError();
        transport.wait(std::move(small), kPatience).IgnoreError();
        const absl::Status status = transport.wait(std::move(receiving), kPatience);
        EXPECT_EQ(status.message(), "the view is over");
        EXPECT_EQ(send(transport, 1, tag(4), {}).message(), "the view is over");
        EXPECT_TRUE(send(transport, 1, tag(1, 2), bytes_of(2 << 20, 2)).ok());
        EXPECT_TRUE(receive(transport, 1, tag(5, 2), {}).ok());
      },
      [](Transport& transport) {
        std::byte byte;
        transport.revoke(View(1), Cancelled("the view is over"));
        EXPECT_EQ(receive(transport, 0, tag(2), {&byte, 1}).message(), "the view is over");
        EXPECT_TRUE(gets(transport, 0, tag(1, 2), 2 << 20, 2));
        EXPECT_TRUE(send(transport, 0, tag(5, 2), {}).ok());
      });
}

TEST_P(TransportTest, DoneDrivesProgress) {
  run_pair(
      [](Transport& transport) {
        const auto message = bytes_of(2 << 20, 1);
        auto sending = transport.start_send(Rank(1), tag(1), message);
        while (!transport.done(*sending)) std::this_thread::yield();
        EXPECT_TRUE(transport.wait(std::move(sending), absl::ZeroDuration()).ok());
      },
      [](Transport& transport) {
        std::vector<std::byte> into(2 << 20);
        auto receiving = transport.start_receive(Rank(0), tag(1), into);
        while (!transport.done(*receiving)) std::this_thread::yield();
        EXPECT_TRUE(transport.wait(std::move(receiving), absl::ZeroDuration()).ok());
        EXPECT_EQ(into, bytes_of(2 << 20, 1));
      });
}

TEST_P(ThreadedTransportTest, TwoThreadsWithTwoCommunicatorsDoNotInterfere) {
  run_ranks(GetParam(), 3, [](Transport& transport) {
    const auto reduce = [&](uint16_t group) {
      Communicator communicator(transport, {Rank(0), Rank(1), Rank(2)},
                                {View(1), group, kPatience});
      for (int round = 0; round < 100; ++round) {
        std::vector<int64_t> values(round % 10 == 0 ? 40'000 : 10, group * 1000 + round);
        ASSERT_TRUE(communicator.all_reduce<int64_t>(values, ReduceOp::kSum).ok());
        for (const int64_t value : values) ASSERT_EQ(value, 3 * (group * 1000 + round));
      }
    };
    std::thread other([&] { reduce(2); });
    reduce(1);
    other.join();
    Communicator world(transport, {Rank(0), Rank(1), Rank(2)}, {View(1), 0, kPatience});
    EXPECT_TRUE(world.barrier().ok());
  });
}

TEST_P(ThreadedTransportTest, RevokeWakesAllThreadsThatWait) {
  run_ranks(GetParam(), 2, [](Transport& transport) {
    std::atomic<int> woken = 0;
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        std::byte byte;
        const absl::Status status =
            receive(transport, 1 - transport.rank().value, tag(i), {&byte, 1});
        EXPECT_EQ(status.message(), "stop") << status;
        ++woken;
      });
    }
    transport.revoke(View(3), Cancelled("stop"));
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(woken, 3);
    Communicator next(transport, {Rank(0), Rank(1)}, {View(4), 0, kPatience});
    EXPECT_TRUE(next.barrier().ok());
  });
}

INSTANTIATE_TEST_SUITE_P(All, TransportTest, testing::ValuesIn(kAllTransports),
                         [](const auto& info) { return kind_name(info.param); });
INSTANTIATE_TEST_SUITE_P(All, ThreadedTransportTest, testing::ValuesIn(kRealTransports),
                         [](const auto& info) { return kind_name(info.param); });

// A rank 1 that greets properly and then, once it is given the word, says what the test wants.
class FalsePeerTest : public testing::Test {
 protected:
  void talk_to(const std::vector<std::byte>& speech, const RankBody& rank_zero) {
    auto listener = listen_unix({});
    ASSERT_TRUE(listener.ok());
    const auto own = listen_on_random_name();
    const std::string own_address = to_string({"unix", this_machine(), own->name});
    const std::string address = (*listener)->address();
    std::thread peer([&] {
      const auto socket = call(Rank(0), parse_address(address)->detail);
      const auto service_messages = make_stream_pair();
      ASSERT_TRUE(socket.ok() && service_messages.ok());
      ASSERT_TRUE(send_greeting(*socket, {Rank(1), 2, View(0), process_number(own->name)},
                                service_messages->theirs)
                      .ok());
      GreetingBytes answer;
      ASSERT_TRUE(receive_all(socket->get(), answer, Deadline(kPatience)).ok());
      FrameBytes word;
      ASSERT_TRUE(receive_all(socket->get(), word, Deadline(kPatience)).ok());
      send_all(socket->get(), speech, Deadline(kPatience)).IgnoreError();
      std::byte byte;
      receive_all(socket->get(), {&byte, 1}, Deadline(kPatience)).IgnoreError();
    });
    auto transport = (*listener)->connect(Rank(0), {address, own_address});
    ASSERT_TRUE(transport.ok()) << transport.status();
    EXPECT_TRUE(send(**transport, 1, tag(0), {}).ok());  // gives it the word
    rank_zero(**transport);
    transport->reset();
    peer.join();
  }
};

TEST_F(FalsePeerTest, ADamagedHeaderEndsThatPeerWithAnExplanation) {
  talk_to(bytes_of(1000, 4), [](Transport& transport) {
    std::byte byte;
    const absl::Status status = receive(transport, 1, tag(1), {&byte, 1});
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(accused_rank(status), Rank(1));
    EXPECT_NE(status.message().find("corrupt"), absl::string_view::npos);
  });
}

TEST_F(FalsePeerTest, AHugeAnnouncementTakesNoMemory) {
  const FrameBytes header = encode_frame({FrameKind::kData, tag(1), kFramePayloadBytesMax});
  talk_to({header.begin(), header.end()}, [](Transport& transport) {
    std::byte byte;
    const absl::Status status = receive(transport, 1, tag(2), {&byte, 1});
    EXPECT_FALSE(status.ok());
  });
}

TEST_F(FalsePeerTest, AServiceMessageAmongTheMessagesEndsThatPeer) {
  const FrameBytes header = encode_frame({FrameKind::kData, service_tag(1), 0});
  talk_to({header.begin(), header.end()}, [](Transport& transport) {
    std::byte byte;
    EXPECT_TRUE(absl::IsUnavailable(receive(transport, 1, tag(2), {&byte, 1})));
  });
}

TEST(ListenerTest, ARankThatDoesNotAnswerIsNamed) {
  for (const TransportKind kind : kRealTransports) {
    auto here = listen(kind);
    auto silent = listen(kind);
    const auto transport = here->connect(Rank(0), {here->address(), silent->address()});
    ASSERT_TRUE(transport.ok());
    for (const Tag& named : {tag(1), service_tag(1)}) {
      const absl::Status status = send(**transport, 1, named, {}, absl::Milliseconds(100));
      EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
      EXPECT_EQ(accused_rank(status), Rank(1));
    }
  }
}

}  // namespace
}  // namespace evermoe
