// As many ranks as a job may have (base/limits.h), in the simulated network: what they send to each
// other and how they end is exact.
#include <algorithm>
#include <bit>
#include <set>

#include "base/limits.h"
#include "comm/communicator.h"
#include "comm/simulated/simulated_network_testing.h"

namespace evermoe {
namespace {

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer remembers, wherever threads synchronize, when it last saw each of them: 512 take
// 1.2 GB, 1,024 take 3 GB. Only one thread runs at a time, however many there are.
constexpr int kRanks = kJobRanksMax / 8;
#else
constexpr int kRanks = kJobRanksMax;
#endif
constexpr size_t kValues = 3;             // of an all_reduce
constexpr size_t kBroadcastBytes = 1000;  // of a broadcast
constexpr int kRoot = 17;                 // of it

// The parent in the tree that begins with index 0.
int parent(int index) { return index & (index - 1); }

// What a rank brings: values whose sum depends on the order of the additions.
std::vector<double> contribution(int rank) {
  std::vector<double> values;
  for (size_t i = 0; i < kValues; ++i) values.push_back(1.0 / (3 * rank + static_cast<int>(i) + 1));
  return values;
}

std::vector<double> sum_in_rank_order() {
  std::vector<double> sum = contribution(0);
  for (int rank = 1; rank < kRanks; ++rank) {
    const std::vector<double> values = contribution(rank);
    for (size_t i = 0; i < kValues; ++i) sum[i] += values[i];
  }
  return sum;
}

using Pairs = std::set<std::pair<int, int>>;

// Of the tree that begins with `root`.
Pairs tree_of(int root) {
  Pairs pairs;
  for (int i = 1; i < kRanks; ++i)
    pairs.insert(std::minmax<int>((i + root) % kRanks, (parent(i) + root) % kRanks));
  return pairs;
}

Pairs pairs_of_an_exchange() {
  Pairs pairs = tree_of(0);
  pairs.merge(tree_of(kRoot));
  return pairs;
}

// Of one all_reduce, one barrier and one broadcast, between processes that have exchanged nothing
// before.
SimulatedTraffic expected_traffic() {
  constexpr int64_t kOthers = kRanks - 1;
  constexpr int64_t kSize = kValues * sizeof(double);
  const auto pairs = static_cast<int64_t>(pairs_of_an_exchange().size());
  // A contribution travels over as many edges as its member has ancestors.
  int64_t hops = 0;
  for (int i = 0; i < kRanks; ++i) hops += std::popcount(static_cast<unsigned>(i));
  return {.messages = 5 * kOthers,
          .bytes = hops * kSize + kOthers * (kSize + int64_t{kBroadcastBytes}),
          .pairs = pairs,
          .connections = pairs};
}

class SimulatedScaleTest : public SimulatedNetworkTest {
 protected:
  SimulatedScaleTest() : sum_(sum_in_rank_order()) {
    for (int i = 0; i < kRanks; ++i) members_.push_back(Rank(i));
    make(kRanks, {.seed = 12, .switch_at_every_call = false});
  }

  Communicator world(Transport& transport, uint32_t view) {
    return Communicator(transport, members_, {.view = View(view), .deadline = kDeadline});
  }

  // All of them, of whoever is there.
  void exchange(Transport& transport, uint32_t view) {
    Communicator world = this->world(transport, view);
    std::vector<double> values = contribution(world.index());
    ASSERT_TRUE(world.all_reduce<double>(values, ReduceOp::kSum).ok());
    EXPECT_EQ(values, sum_);
    ASSERT_TRUE(world.barrier().ok());
    std::vector<std::byte> bytes(kBroadcastBytes, std::byte(world.index() == kRoot ? 5 : 0));
    ASSERT_TRUE(world.broadcast(kRoot, bytes).ok());
    EXPECT_EQ(bytes, std::vector<std::byte>(kBroadcastBytes, std::byte(5)));
    ++exchanged_;
  }

  static constexpr absl::Duration kDeadline = absl::Seconds(10);
  const std::vector<double> sum_;
  std::vector<Rank> members_;
  int exchanged_ = 0;
};

TEST_F(SimulatedScaleTest, AllExchangeAndLeave) {
  for (int i = 0; i < kRanks; ++i) {
    start(i, {[this](Transport& transport) {
            know_all(transport);
            exchange(transport, 1);
            transport.close();
          }});
  }
  run();
  EXPECT_EQ(exchanged_, kRanks);
  EXPECT_EQ(network_->traffic(), expected_traffic());
  // Two trees up and two down, twelve levels each.
  EXPECT_LT(network_->now(), absl::Milliseconds(100));
}

// One in the middle of the tree dies during an all_reduce. Only those who talk to it hear of its
// death; the others wait for somebody who waits for it. Then another process plays its rank.
TEST_F(SimulatedScaleTest, OneIsLostAndReplaced) {
  constexpr int kLost = kRanks / 2;
  int accusers = 0, late = 0;
  SimulatedTraffic before;
  const auto survivor = [&](Transport& transport) {
    know_all(transport);
    Communicator world = this->world(transport, 1);
    ASSERT_TRUE(world.barrier().ok());
    if (transport.rank() == Rank(kLost)) return network_->kill(process_[kLost]);
    std::vector<double> values = contribution(world.index());
    const absl::Status status = world.all_reduce<double>(values, ReduceOp::kSum);
    const int own = transport.rank().value;
    if (own == parent(kLost) || parent(own) == kLost) {
      EXPECT_TRUE(accuses(status, kLost)) << own << ": " << status;
      ++accusers;
    } else {
      EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << own << ": " << status;
      ++late;
    }
    transport.revoke(View(1), Cancelled("a view ends"));
    network_->pause(3 * kDeadline - network_->now());  // all of them have given up by then
    know_all(transport);
    exchange(transport, 2);
    transport.close();
  };
  for (int i = 0; i < kRanks; ++i) start(i, {survivor});
  network_->after(2 * kDeadline, [&] {
    before = network_->traffic();
    start(kLost, {[&](Transport& transport) {
            network_->pause(kDeadline);
            know_all(transport);
            exchange(transport, 2);
            transport.close();
          }},
          2);
  });
  run();
  EXPECT_EQ(accusers, 1 + std::countr_zero(static_cast<unsigned>(kLost)));
  EXPECT_EQ(accusers + late, kRanks - 1);
  EXPECT_EQ(exchanged_, kRanks);
  const SimulatedTraffic after = network_->traffic(), expected = expected_traffic();
  EXPECT_EQ(after.messages - before.messages, expected.messages);
  EXPECT_EQ(after.bytes - before.bytes, expected.bytes);
  const Pairs known = tree_of(0);
  EXPECT_EQ(before.connections, static_cast<int64_t>(known.size()));
  const Pairs pairs = pairs_of_an_exchange();
  EXPECT_EQ(after.connections - before.connections, std::ranges::count_if(pairs, [&](auto pair) {
              return pair.first == kLost || pair.second == kLost || !known.contains(pair);
            }));
}

}  // namespace
}  // namespace evermoe
