// The transport "auto" passes everything on to the kind that it has chosen. A second machine is an
// address that names one.
#include "comm/job_transport.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/host_address.h"
#include "comm/rank_threads_testing.h"
#include "comm/transport_testing.h"

namespace evermoe {
namespace {

TEST(JobTransportTest, AutoUsesStreamsOnOneMachine) {
  std::vector<std::unique_ptr<TransportListener>> listeners;
  std::vector<std::string> addresses;
  for (int i = 0; i < 2; ++i) {
    auto listener = listen_job({});
    ASSERT_TRUE(listener.ok()) << listener.status();
    listeners.push_back(*std::move(listener));
    addresses.push_back(listeners.back()->address());
  }
  std::thread other([&] {
    auto transport = listeners[1]->connect(Rank(1), addresses, kPatience);
    ASSERT_TRUE(transport.ok()) << transport.status();
    EXPECT_TRUE(gets(**transport, 0, tag(1), 100, 1));
  });
  auto transport = listeners[0]->connect(Rank(0), addresses, kPatience);
  ASSERT_TRUE(transport.ok()) << transport.status();
  EXPECT_TRUE(send(**transport, 1, tag(1), bytes_of(100, 1)).ok());
  other.join();
}

// Processes of "auto" as they see each other: all on one machine, or each on one of its own.
class AutoCast {
 public:
  AutoCast(int size, bool is_spread) : is_spread_(is_spread), table_(static_cast<size_t>(size)), transports_(static_cast<size_t>(size)) {}

  void enter(int rank, uint32_t since) {
    const auto at = static_cast<size_t>(rank);
    auto listener = listen_job({});
    CHECK_OK(listener.status());
    table_[at] = {(*listener)->address(), View(since)};
    auto transport = (*listener)->open(Rank(rank), static_cast<int>(table_.size()), View(since));
    CHECK_OK(transport.status());
    transports_[at] = *std::move(transport);
  }
  // Without a goodbye.
  void die(int rank) { transports_[static_cast<size_t>(rank)].reset(); }
  Transport& operator[](int rank) { return *transports_[static_cast<size_t>(rank)]; }

  void expect_meeting() {
    std::vector<std::thread> threads;
    for (const auto& transport : transports_) {
      threads.emplace_back([&] {
        const absl::Status status = transport->meet(table_as_seen_by(transport->rank()), kPatience);
        EXPECT_TRUE(status.ok()) << status;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Everybody reduces and sends everybody a letter in this view.
  void expect_traffic(uint32_t view) {
    std::vector<Rank> all;
    for (const auto& transport : transports_) all.push_back(transport->rank());
    std::vector<std::thread> threads;
    for (const auto& transport : transports_) {
      threads.emplace_back([&] {
        Communicator world(*transport, all, {View(view), 0, kPatience});
        std::vector<int64_t> values(30'000, 1);
        EXPECT_TRUE(world.all_reduce<int64_t>(values, ReduceOp::kSum).ok());
        for (const Rank to : all) EXPECT_TRUE(send(*transport, to.value, letter_tag(1, view), bytes_of(300, to.value)).ok());
        for (size_t i = 0; i < all.size(); ++i) {
          const auto letter = transport->receive_letter(kPatience);
          ASSERT_TRUE(letter.ok()) << letter.status();
          EXPECT_TRUE(is_letter(letter, letter->from.value, letter_tag(1, view), 300, transport->rank().value));
        }
        EXPECT_TRUE(world.barrier().ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<PeerAddress> table_as_seen_by(Rank rank) const {
    std::vector<PeerAddress> result = table_;
    for (size_t i = 0; is_spread_ && i < result.size(); ++i) {
      if (i == static_cast<size_t>(rank.value)) continue;
      HostAddress address = *parse_address(result[i].address);
      address.machine = "elsewhere";
      result[i].address = to_string(address);
    }
    return result;
  }

  const bool is_spread_;
  std::vector<PeerAddress> table_;
  std::vector<std::unique_ptr<Transport>> transports_;
};

class AutoMeetingTest : public testing::TestWithParam<bool> {};

TEST_P(AutoMeetingTest, NewcomersAreMetAndLettersAndRevocationsArePassedOn) {
  AutoCast cast(3, GetParam());
  for (int rank = 0; rank < 3; ++rank) cast.enter(rank, 1);
  cast.expect_meeting();
  cast.expect_traffic(1);
  for (uint32_t view = 2; view < 5; ++view) {
    std::byte byte;
    auto waiting = cast[0].start_receive(Rank(1), tag(1, view - 1), {&byte, 1});
    cast.die(1);
    const absl::Status lost = cast[0].wait(std::move(waiting), kPatience);
    EXPECT_TRUE(absl::IsUnavailable(lost) && accused_rank(lost) == Rank(1)) << lost;
    for (const int survivor : {0, 2}) cast[survivor].revoke(View(view - 1), Cancelled("rank 1 died"));
    EXPECT_EQ(send(cast[0], 2, tag(1, view - 1), {}).message(), "rank 1 died");
    cast.enter(1, view);
    cast.expect_meeting();
    cast.expect_traffic(view);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AutoMeetingTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "AcrossMachines" : "OnOneMachine"; });

// Before the choice there are only letters to oneself.
TEST(JobTransportTest, TheChoiceWakesTheThreadThatWaitsForALetter) {
  for (const bool is_spread : {false, true}) {
    AutoCast cast(2, is_spread);
    cast.enter(0, 0);
    cast.enter(1, 0);
    std::thread service([&] { EXPECT_TRUE(is_letter(cast[1].receive_letter(kPatience), 0, letter_tag(2), 10, 2)); });
    EXPECT_TRUE(send(cast[0], 0, letter_tag(1), bytes_of(10, 1)).ok());
    EXPECT_TRUE(is_letter(cast[0].receive_letter(kPatience), 0, letter_tag(1), 10, 1));
    cast.expect_meeting();
    EXPECT_TRUE(send(cast[0], 1, letter_tag(2), bytes_of(10, 2)).ok());
    service.join();
  }
}

}  // namespace
}  // namespace evermoe
