// Service messages, over all transports within one process; and revocation, which leaves them
// alone.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/transport/rank_threads_testing.h"
#include "comm/transport/transport_testing.h"

namespace evermoe {
namespace {

class ServiceMessagesTest : public testing::TestWithParam<TransportKind> {
 protected:
  void run_pair(const RankBody& zero, const RankBody& one) {
    run_ranks(GetParam(), 2,
              [&](Transport& transport) { (transport.rank() == Rank(0) ? zero : one)(transport); });
  }
};
// What needs several threads of a rank, or limits that only the real transports have.
class ThreadedServiceMessagesTest : public ServiceMessagesTest {};

TEST_P(ServiceMessagesTest, ServiceMessagesOfAllSizesComeInTheOrderSent) {
  const std::vector<size_t> sizes = {0, 1, 64, 4096, 70'000, 1 << 20, 0, 9 << 20, 64};
  run_pair(
      [&](Transport& transport) {
        for (size_t i = 0; i < sizes.size(); ++i) {
          const auto n = static_cast<uint32_t>(i);
          EXPECT_TRUE(send(transport, 1, service_tag(n, 70'000 + n),
                           bytes_of(sizes[i], static_cast<int>(i)))
                          .ok());
        }
      },
      [&](Transport& transport) {
        for (size_t i = 0; i < sizes.size(); ++i) {
          const auto n = static_cast<uint32_t>(i);
          EXPECT_TRUE(is_service_message(transport.receive_service_message(kPatience), 0,
                                         service_tag(n, 70'000 + n), sizes[i], static_cast<int>(i)))
              << i;
        }
      });
}

TEST_P(ServiceMessagesTest, ServiceMessagesOfSeveralSendersComeEachInItsOrder) {
  constexpr uint32_t kEach = 200;
  run_ranks(GetParam(), 4, [](Transport& transport) {
    if (transport.rank() != Rank(0)) {
      for (uint32_t i = 0; i < kEach; ++i) {
        ASSERT_TRUE(
            send(transport, 0, service_tag(i), bytes_of(i * 97 % 5000, static_cast<int>(i))).ok());
      }
      return;
    }
    std::array<uint32_t, 4> next{};
    for (uint32_t i = 0; i < 3 * kEach; ++i) {
      const auto service_message = transport.receive_service_message(kPatience);
      ASSERT_TRUE(service_message.ok()) << service_message.status();
      uint32_t& expected = next[static_cast<size_t>(service_message->from.value)];
      EXPECT_TRUE(is_service_message(service_message, service_message->from.value,
                                     service_tag(expected), expected * 97 % 5000,
                                     static_cast<int>(expected)));
      ++expected;
    }
  });
}

TEST_P(ServiceMessagesTest, WithoutAServiceMessageThereIsATimeoutThatAccusesNobody) {
  run_ranks(GetParam(), 2, [](Transport& transport) {
    const auto service_message = transport.receive_service_message(absl::Milliseconds(5));
    EXPECT_TRUE(absl::IsDeadlineExceeded(service_message.status())) << service_message.status();
    EXPECT_EQ(accused_rank(service_message.status()), std::nullopt);
  });
}

TEST_P(ServiceMessagesTest, ServiceMessagesToOneselfFindRoomEvenBeyondTheLimit) {
  run_ranks(GetParam(), 1, [](Transport& transport) {
    const std::vector<std::byte> large(40 << 20, std::byte(7));
    for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(send(transport, 0, service_tag(i), large).ok());
    for (uint32_t i = 0; i < 3; ++i) {
      const auto service_message = transport.receive_service_message(kPatience);
      ASSERT_TRUE(service_message.ok());
      EXPECT_EQ(service_message->tag, service_tag(i));
      EXPECT_TRUE(std::equal(large.begin(), large.end(), service_message->span().begin(),
                             service_message->span().end()));
    }
  });
}

TEST_P(ServiceMessagesTest, TheLimitHoldsTheSenderAndNothingIsLost) {
  constexpr size_t kSize = 4 << 20;
  constexpr uint32_t kCount = 2 * Transport::kServiceBytesMax / kSize;
  run_pair(
      [](Transport& transport) {
        const auto bytes = bytes_of(kSize, 1);
        std::vector<std::unique_ptr<TransportOperation>> sends;
        for (uint32_t i = 0; i < kCount; ++i)
          sends.push_back(transport.start_send(Rank(1), service_tag(i), bytes));
        EXPECT_TRUE(send(transport, 1, tag(1), {}).ok());
        uint32_t taken = 0;
        for (auto& operation : sends) taken += transport.done(*operation);
        // The receiver has not looked at any yet; a few are on the way.
        EXPECT_LE(taken, Transport::kServiceBytesMax / kSize + 1);
        EXPECT_TRUE(send(transport, 1, tag(2), {}).ok());
        for (auto& operation : sends)
          EXPECT_TRUE(transport.wait(std::move(operation), kPatience).ok());
      },
      [](Transport& transport) {
        EXPECT_TRUE(receive(transport, 0, tag(1), {}).ok());
        EXPECT_TRUE(receive(transport, 0, tag(2), {}).ok());
        for (uint32_t i = 0; i < kCount; ++i) {
          EXPECT_TRUE(is_service_message(transport.receive_service_message(kPatience), 0,
                                         service_tag(i), kSize, 1))
              << i;
        }
      });
}

// Three senders of 64 MiB each, none of which is beyond its own limit.
TEST_P(ServiceMessagesTest, TheLimitOfAllHoldsThemAndNothingIsLost) {
  constexpr size_t kSize = 4 << 20;
  constexpr uint32_t kEach = Transport::kServiceBytesMax / kSize, kSenders = 3;
  std::atomic<uint32_t> taken = 0;
  run_ranks(GetParam(), kSenders + 1, [&](Transport& transport) {
    if (transport.rank() == Rank(0)) {
      for (int from = 1; from <= int{kSenders}; ++from)
        EXPECT_TRUE(receive(transport, from, tag(1), {}).ok());
      // The receiver has not looked at any yet; a few are on the way.
      EXPECT_LE(taken.load(), Transport::kServiceBytesOfAllMax / kSize + 2 * kSenders);
      std::array<uint32_t, kSenders + 1> next{};
      for (uint32_t i = 0; i < kSenders * kEach; ++i) {
        const auto service_message = transport.receive_service_message(kPatience);
        ASSERT_TRUE(service_message.ok()) << service_message.status();
        const auto from = static_cast<size_t>(service_message->from.value);
        EXPECT_EQ(service_message->tag, service_tag(next[from]++));
      }
      return;
    }
    const auto bytes = bytes_of(kSize, 1);
    std::vector<std::unique_ptr<TransportOperation>> sends;
    for (uint32_t i = 0; i < kEach; ++i)
      sends.push_back(transport.start_send(Rank(0), service_tag(i), bytes));
    // Until nothing moves any more.
    uint32_t done = 0;
    for (int still = 0; still < 20; ++still, ::poll(nullptr, 0, 1)) {
      uint32_t now = 0;
      for (auto& operation : sends) now += transport.done(*operation) ? 1 : 0;
      if (std::exchange(done, now) != now) still = 0;
    }
    taken += done;
    EXPECT_TRUE(send(transport, 0, tag(1), {}).ok());
    for (auto& operation : sends) EXPECT_TRUE(transport.wait(std::move(operation), kPatience).ok());
  });
}

TEST_P(ThreadedServiceMessagesTest,
       TwoRanksThatBothSendMoreThanTheLimitBeforeTheyReceiveGetThrough) {
  constexpr uint32_t kCount = 24;
  run_ranks(GetParam(), 2, [](Transport& transport) {
    const int other = 1 - transport.rank().value;
    const auto bytes = bytes_of(4 << 20, 3);
    for (uint32_t i = 0; i < kCount; ++i)
      EXPECT_TRUE(send(transport, other, service_tag(i), bytes).ok());
    for (uint32_t i = 0; i < kCount; ++i) {
      EXPECT_TRUE(is_service_message(transport.receive_service_message(kPatience), other,
                                     service_tag(i), 4 << 20, 3))
          << i;
    }
  });
}

TEST_P(ServiceMessagesTest, ServiceMessagesOfARankThatHasLeftStay) {
  run_pair(
      [](Transport& transport) {
        connect_with_all(transport);  // else it may have left before the other one calls
        EXPECT_TRUE(send(transport, 1, service_tag(1), bytes_of(1000, 1)).ok());
      },
      [](Transport& transport) {
        connect_with_all(transport);
        std::byte byte;
        EXPECT_TRUE(absl::IsCancelled(receive(transport, 0, tag(1), {&byte, 1})));
        EXPECT_TRUE(is_service_message(transport.receive_service_message(kPatience), 0,
                                       service_tag(1), 1000, 1));
        EXPECT_TRUE(absl::IsDeadlineExceeded(
            transport.receive_service_message(absl::Milliseconds(1)).status()));
      });
}

TEST_P(ServiceMessagesTest, ARevokedRangeEndsAloneAndServiceMessagesGoOn) {
  const auto in = [](uint16_t group, uint32_t view) { return Tag{View(view), group, 1}; };
  run_ranks(GetParam(), 2, [&](Transport& transport) {
    const int other = 1 - transport.rank().value;
    const auto bytes = bytes_of(100, 1);
    const GroupRange stage{10, 19};
    // What is under way in the range ends, and what has come for it is dropped.
    EXPECT_TRUE(send(transport, other, in(10, 1), bytes).ok());
    EXPECT_TRUE(send(transport, other, in(9, 1), bytes).ok());
    EXPECT_TRUE(send(transport, other, in(20, 1), bytes).ok());
    EXPECT_TRUE(send(transport, other, service_tag(1, 0), bytes).ok());
    EXPECT_TRUE(gets(transport, other, in(9, 1), 100, 1));
    std::byte byte;
    auto inside = transport.start_receive(Rank(other), in(19, 1), {&byte, 1});
    std::vector<std::byte> into(100);
    auto outside = transport.start_receive(Rank(other), in(8, 1), into);
    transport.revoke(stage, View(1), Cancelled("the stage stops"));
    EXPECT_EQ(transport.wait(std::move(inside), kPatience).message(), "the stage stops");
    EXPECT_EQ(receive(transport, other, in(10, 1), {&byte, 1}).message(), "the stage stops");
    EXPECT_EQ(send(transport, other, in(15, 0), bytes).message(), "the stage stops");
    EXPECT_TRUE(send(transport, other, in(8, 1), bytes).ok());
    EXPECT_TRUE(transport.wait(std::move(outside), kPatience).ok());
    EXPECT_TRUE(gets(transport, other, in(20, 1), 100, 1));
    EXPECT_TRUE(send(transport, other, in(10, 2), bytes).ok());
    EXPECT_TRUE(gets(transport, other, in(10, 2), 100, 1));
    EXPECT_TRUE(is_service_message(transport.receive_service_message(kPatience), other,
                                   service_tag(1, 0), 100, 1));
    EXPECT_TRUE(send(transport, other, service_tag(2, 0), bytes).ok());
    EXPECT_TRUE(is_service_message(transport.receive_service_message(kPatience), other,
                                   service_tag(2, 0), 100, 1));
    EXPECT_TRUE(send(transport, other, in(9, 1), bytes).ok());
    EXPECT_TRUE(gets(transport, other, in(9, 1), 100, 1));
  });
}

TEST_P(ServiceMessagesTest, AllGroupsAreNotServiceMessages) {
  run_pair(
      [](Transport& transport) {
        EXPECT_TRUE(send(transport, 1, service_tag(1, 3), bytes_of(2 << 20, 1)).ok());
        transport.revoke(View(9), Cancelled("all over"));
        EXPECT_TRUE(send(transport, 1, service_tag(2, 3), bytes_of(10, 2)).ok());
      },
      [](Transport& transport) {
        transport.revoke(View(9), Cancelled("all over"));
        EXPECT_TRUE(is_service_message(transport.receive_service_message(kPatience), 0,
                                       service_tag(1, 3), 2 << 20, 1));
        EXPECT_TRUE(is_service_message(transport.receive_service_message(kPatience), 0,
                                       service_tag(2, 3), 10, 2));
      });
}

// The life of a worker: one thread trains, one answers requests.
TEST_P(ThreadedServiceMessagesTest,
       ServiceMessagesAreAnsweredWhileAnotherThreadWaitsInACollective) {
  run_ranks(GetParam(), 3, [](Transport& transport) {
    constexpr int kFirst = 100, kRounds = 20;
    // Answers that have not come yet. Somebody has to take them: nothing moves in the channel of
    // service messages of a process none of whose threads waits there.
    int awaited = kRounds + (transport.rank() == Rank(0) ? kFirst : 0);
    std::thread service([&] {
      for (int stops = 0; stops < 2 || awaited > 0;) {
        auto request = transport.receive_service_message(kPatience);
        ASSERT_TRUE(request.ok()) << request.status();
        if (request->tag.purpose == 0) {
          ++stops;
          continue;
        }
        if (request->tag.purpose == 2) {
          --awaited;
          continue;
        }
        EXPECT_TRUE(send(transport, request->from.value, service_tag(2), request->span()).ok());
      }
    });
    Communicator world(transport, {Rank(0), Rank(1), Rank(2)}, {View(1), 0, kPatience});
    if (transport.rank() == Rank(0)) {
      // The others wait in the collective meanwhile.
      for (int i = 0; i < kFirst / 2; ++i) {
        for (const int other : {1, 2})
          ASSERT_TRUE(
              send(transport, other, service_tag(1), bytes_of(i % 2 ? 64 : 300'000, i)).ok());
      }
    }
    std::vector<int64_t> values(50'000, 1);
    for (int round = 0; round < kRounds; ++round) {
      ASSERT_TRUE(world.all_reduce<int64_t>(values, ReduceOp::kMax).ok());
      ASSERT_TRUE(send(transport, (transport.rank().value + 1) % 3, service_tag(1),
                       bytes_of(100'000, round))
                      .ok());
    }
    ASSERT_TRUE(world.barrier().ok());
    for (int other = 0; other < 3; ++other) {
      if (other != transport.rank().value) {
        ASSERT_TRUE(send(transport, other, service_tag(0), {}).ok());
      }
    }
    service.join();
    ASSERT_TRUE(world.barrier().ok());
  });
}

TEST_P(ThreadedServiceMessagesTest, AServiceMessageToOneselfWakesTheThreadThatWaits) {
  run_ranks(GetParam(), 2, [](Transport& transport) {
    std::thread service([&] {
      for (uint32_t i = 0; i < 300; ++i)
        ASSERT_TRUE(is_service_message(transport.receive_service_message(kPatience),
                                       transport.rank().value, service_tag(i), 0, 0));
    });
    for (uint32_t i = 0; i < 300; ++i)
      EXPECT_TRUE(send(transport, transport.rank().value, service_tag(i), {}).ok());
    service.join();
  });
}

TEST_P(ThreadedServiceMessagesTest, CloseWakesTheThreadThatWaits) {
  run_ranks(GetParam(), 2, [](Transport& transport) {
    std::thread service([&] {
      EXPECT_TRUE(absl::IsCancelled(transport.receive_service_message(kPatience).status()));
    });
    ASSERT_TRUE(send(transport, 1 - transport.rank().value, tag(1), {}).ok());
    ASSERT_TRUE(receive(transport, 1 - transport.rank().value, tag(1), {}).ok());
    transport.close();
    service.join();
    EXPECT_TRUE(absl::IsCancelled(transport.receive_service_message(kPatience).status()));
  });
}

// A large message that nobody receives yet must keep no service message back.
TEST_P(ThreadedServiceMessagesTest, ServiceMessagesPassAMessageThatIsHeld) {
  run_ranks(GetParam(), 2, [](Transport& transport) {
    const auto large = bytes_of(8 << 20, 1);
    if (transport.rank() == Rank(0)) {
      auto sending = transport.start_send(Rank(1), tag(1), large);
      EXPECT_TRUE(send(transport, 1, service_tag(1), bytes_of(64, 2)).ok());
      EXPECT_TRUE(is_service_message(transport.receive_service_message(kPatience), 1,
                                     service_tag(2), 0, 0));
      EXPECT_TRUE(transport.wait(std::move(sending), kPatience).ok());
    } else {
      EXPECT_TRUE(is_service_message(transport.receive_service_message(kPatience), 0,
                                     service_tag(1), 64, 2));
      EXPECT_TRUE(send(transport, 0, service_tag(2), {}).ok());
      EXPECT_TRUE(gets(transport, 0, tag(1), large.size(), 1));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, ServiceMessagesTest, testing::ValuesIn(kAllTransports),
                         [](const auto& info) { return kind_name(info.param); });
INSTANTIATE_TEST_SUITE_P(All, ThreadedServiceMessagesTest, testing::ValuesIn(kRealTransports),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace
}  // namespace evermoe
