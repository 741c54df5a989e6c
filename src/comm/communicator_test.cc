// Every collective against a dumb oracle, bit for bit, over all transports.
#include "comm/communicator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "comm/communicator_testing.h"

namespace evermoe {
namespace {

const size_t kSizes[] = {0, 1, 3, 1000, 100'000};

class CommunicatorTest : public CommunicatorFixture {
 protected:
  template <typename T>
  void expect_reductions(ReduceOp op) {
    run([&](Communicator& world) {
      for (const size_t count : kSizes) {
        std::vector<T> values = values_of<T>(world.index(), count);
        ASSERT_TRUE(world.all_reduce<T>(values, op).ok());
        const std::vector<T> expected = reduced<T>(members(), count, op);
        EXPECT_TRUE(same_bits<T>(values, expected)) << count;
      }
    });
  }
};

TEST_P(CommunicatorTest, AllReduceOfFloatsHasTheBitsOfIndexOrder) {
  expect_reductions<float>(ReduceOp::kSum);
}
TEST_P(CommunicatorTest, AllReduceOfDoublesHasTheBitsOfIndexOrder) {
  expect_reductions<double>(ReduceOp::kSum);
}
TEST_P(CommunicatorTest, AllReduceOfIntegersWrapsAround) {
  expect_reductions<int64_t>(ReduceOp::kSum);
}
TEST_P(CommunicatorTest, AllReduceFindsTheLeast) { expect_reductions<float>(ReduceOp::kMin); }
TEST_P(CommunicatorTest, AllReduceFindsTheGreatest) { expect_reductions<int64_t>(ReduceOp::kMax); }

TEST_P(CommunicatorTest, AllReduceInSeveralChunksHasTheBitsOfIndexOrder) {
  run([&](Communicator& world) {
    const size_t count = 1'300'007;  // more than one chunk for each of five members
    std::vector<float> values = values_of<float>(world.index(), count);
    ASSERT_TRUE(world.all_reduce<float>(values, ReduceOp::kSum).ok());
    const std::vector<float> expected = reduced<float>(members(), count, ReduceOp::kSum);
    EXPECT_TRUE(same_bits<float>(values, expected));
  });
}

TEST_P(CommunicatorTest, NanGivesTheSameBitsOnAllMembers) {
  std::mutex mutex;
  std::vector<std::vector<float>> results;
  run([&](Communicator& world) {
    std::vector<float> values(1000, world.index() % 2 == 0 ? std::nanf("7") : -0.0f);
    ASSERT_TRUE(world.all_reduce<float>(values, ReduceOp::kSum).ok());
    const std::lock_guard lock(mutex);
    results.push_back(values);
  });
  for (const auto& result : results) EXPECT_TRUE(same_bits<float>(result, results[0]));
}

TEST_P(CommunicatorTest, ReduceScatterGivesEachMemberItsPart) {
  run([&](Communicator& world) {
    for (const size_t count : kSizes) {
      const std::vector<float> values = values_of<float>(world.index(), count);
      const auto begins = ragged_begins(members(), count);
      const auto begin = static_cast<size_t>(begins[static_cast<size_t>(world.index())]);
      const auto end = static_cast<size_t>(begins[static_cast<size_t>(world.index()) + 1]);
      std::vector<float> part(end - begin);
      ASSERT_TRUE(world.reduce_scatter<float>(values, begins, part, ReduceOp::kSum).ok());
      const std::vector<float> expected = reduced<float>(members(), count, ReduceOp::kSum);
      EXPECT_TRUE(same_bits<float>(part, std::span(expected).subspan(begin, end - begin))) << count;
      EXPECT_TRUE(same_bits<float>(values, values_of<float>(world.index(), count)));
    }
  });
}

TEST_P(CommunicatorTest, ReduceScatterWorksInPlace) {
  run([&](Communicator& world) {
    const size_t count = 200'001;
    std::vector<double> values = values_of<double>(world.index(), count);
    const auto begins = ragged_begins(members(), count);
    const auto begin = static_cast<size_t>(begins[static_cast<size_t>(world.index())]);
    const auto end = static_cast<size_t>(begins[static_cast<size_t>(world.index()) + 1]);
    const auto part = std::span(values).subspan(begin, end - begin);
    ASSERT_TRUE(world.reduce_scatter<double>(values, begins, part, ReduceOp::kSum).ok());
    const std::vector<double> expected = reduced<double>(members(), count, ReduceOp::kSum);
    EXPECT_TRUE(same_bits<double>(part, std::span(expected).subspan(begin, end - begin)));
  });
}

TEST_P(CommunicatorTest, AllGatherCollectsRaggedParts) {
  run([&](Communicator& world) {
    for (const size_t count : kSizes) {
      const auto begins = ragged_begins(members(), count);
      std::vector<std::byte> bytes(count);
      const auto own = static_cast<size_t>(world.index());
      std::fill(bytes.begin() + begins[own], bytes.begin() + begins[own + 1],
                std::byte(world.index() + 1));
      ASSERT_TRUE(world.all_gather(bytes, begins).ok());
      for (size_t i = 0; i + 1 < begins.size(); ++i) {
        for (auto at = begins[i]; at < begins[i + 1]; ++at) {
          ASSERT_EQ(bytes[static_cast<size_t>(at)], std::byte(i + 1));
        }
      }
    }
  });
}

TEST_P(CommunicatorTest, AllToAllDeliversEveryPairItsOwnSize) {
  run([&](Communicator& world) {
    // Member i sends j a message of 37 * i * j bytes, large for one pair.
    const auto size_of = [](int i, int j) {
      return static_cast<size_t>(37 * i * j + (i == 1 && j == 0 ? 300'000 : 0));
    };
    std::vector<std::vector<std::byte>> out, in;
    std::vector<std::span<const std::byte>> sends;
    std::vector<std::span<std::byte>> receives;
    for (int other = 0; other < members(); ++other) {
      out.emplace_back(size_of(world.index(), other), std::byte(world.index() * 16 + other));
      in.emplace_back(size_of(other, world.index()));
    }
    for (size_t other = 0; other < out.size(); ++other) {
      sends.push_back(out[other]);
      receives.push_back(in[other]);
    }
    ASSERT_TRUE(world.all_to_all(sends, receives).ok());
    for (int other = 0; other < members(); ++other) {
      for (const std::byte byte : in[static_cast<size_t>(other)]) {
        ASSERT_EQ(byte, std::byte(other * 16 + world.index()));
      }
    }
  });
}

TEST_P(CommunicatorTest, BroadcastReachesAllFromEveryRoot) {
  run([&](Communicator& world) {
    for (int root = 0; root < members(); ++root) {
      for (const size_t count : kSizes) {
        const std::vector<float> expected = values_of<float>(root + 100, count);
        std::vector<float> values = world.index() == root ? expected : std::vector<float>(count);
        ASSERT_TRUE(world.broadcast(root, std::as_writable_bytes(std::span(values))).ok());
        EXPECT_TRUE(same_bits<float>(values, expected));
      }
    }
  });
}

// The others wait for a message that member 0 sends only from within its own waiting.
TEST_P(CommunicatorTest, WaitingCallsDoOtherWork) {
  constexpr uint32_t kGo = 7;
  run([&](Communicator& world) {
    std::vector<PendingMessage> gos;
    int pieces = 0;
    if (world.index() == 0) {
      world.set_idle_work([&] {
        if (++pieces == 3) {
          for (int i = 1; i < world.size(); ++i) gos.push_back(world.start_send(i, kGo, {}));
        }
        return pieces <= 3;
      });
    } else {
      ASSERT_TRUE(world.start_receive(0, kGo, {}).wait().ok());
    }
    std::vector<float> values(1000, static_cast<float>(world.index()));
    ASSERT_TRUE(world.all_reduce<float>(values, ReduceOp::kSum).ok());
    EXPECT_EQ(values[0], static_cast<float>(world.size() * (world.size() - 1) / 2));
    EXPECT_EQ(pieces > 2, world.index() == 0 && world.size() > 1) << pieces;
    world.set_idle_work({});
    for (PendingMessage& go : gos) EXPECT_TRUE(go.wait().ok());
  });
}

TEST_P(CommunicatorTest, NamedMessagesAndCollectivesDoNotMeet) {
  run([&](Communicator& world) {
    const int next = (world.index() + 1) % members();
    const int before = (world.index() + members() - 1) % members();
    const int64_t mine = world.index();
    int64_t first = -1, second = -1;
    auto send_one = world.start_send(next, 5, std::as_bytes(std::span(&mine, 1)));
    auto send_two = world.start_send(next, 0, std::as_bytes(std::span(&mine, 1)));
    int64_t sum = world.index();
    ASSERT_TRUE(world.all_reduce<int64_t>(std::span(&sum, 1), ReduceOp::kSum).ok());
    auto receive_two =
        world.start_receive(before, 0, std::as_writable_bytes(std::span(&second, 1)));
    auto receive_one = world.start_receive(before, 5, std::as_writable_bytes(std::span(&first, 1)));
    EXPECT_TRUE(receive_one.wait().ok() && receive_two.wait().ok());
    EXPECT_TRUE(send_one.wait().ok() && send_two.wait().ok());
    EXPECT_EQ(first, before);
    EXPECT_EQ(second, before);
    EXPECT_EQ(sum, members() * (members() - 1) / 2);
  });
}

// Enough members for trees, of sizes at which a tree has ragged edges.
class ManyMembersTest : public testing::TestWithParam<int> {
 protected:
  void run(const std::function<void(Communicator&)>& body) {
    run_ranks(TransportKind::kInProcess, GetParam(), [&](Transport& transport) {
      Communicator world(transport, everybody(GetParam()),
                         {.view = View(1), .deadline = absl::Seconds(30)});
      body(world);
      EXPECT_TRUE(world.barrier().ok());
    });
  }
};

TEST_P(ManyMembersTest, AllReduceHasTheBitsOfIndexOrder) {
  for (const size_t count : {1u, 7u, 5000u, 40'000u}) {
    const std::vector<float> sum = reduced<float>(GetParam(), count, ReduceOp::kSum);
    run([&](Communicator& world) {
      std::vector<float> values = values_of<float>(world.index(), count);
      ASSERT_TRUE(world.all_reduce<float>(values, ReduceOp::kSum).ok());
      EXPECT_TRUE(same_bits<float>(values, sum)) << count;
    });
  }
}

TEST_P(ManyMembersTest, EverybodyGetsWhatEverybodyBrings) {
  constexpr size_t kCount = 1000;
  run([&](Communicator& world) {
    const auto begins = ragged_begins(GetParam(), kCount);
    const std::vector<int64_t> values = values_of<int64_t>(0, kCount / sizeof(int64_t));
    const auto all = std::as_bytes(std::span(values));
    const std::vector<std::byte> whole(all.begin(), all.end());
    std::vector<std::byte> bytes(kCount);
    const auto own = static_cast<size_t>(world.index());
    std::copy(whole.begin() + begins[own], whole.begin() + begins[own + 1],
              bytes.begin() + begins[own]);
    ASSERT_TRUE(world.all_gather(bytes, begins).ok());
    EXPECT_EQ(bytes, whole);
  });
}

TEST_P(ManyMembersTest, ABroadcastReachesEverybodyFromAnyRoot) {
  run([&](Communicator& world) {
    for (const int root : {0, 5, GetParam() - 1}) {
      std::vector<int64_t> values(10, world.index() == root ? 1000 + root : 0);
      ASSERT_TRUE(world.broadcast(root, std::as_writable_bytes(std::span(values))).ok());
      EXPECT_EQ(values, std::vector<int64_t>(10, 1000 + root));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, ManyMembersTest, testing::Values(33, 64, 100));

INSTANTIATE_TEST_SUITE_P(All, CommunicatorTest, all_transports_and_sizes(), fixture_name);

}  // namespace
}  // namespace evermoe
