// The transport "auto" uses streams inside a machine and UCX between machines, in one job. A second
// machine is an address that names one.
#include "comm/transport/job_transport.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>

#include "comm/cast_testing.h"
#include "comm/transport/host_address.h"
#include "comm/transport/secret_testing.h"

namespace evermoe {
namespace {

JobTransportOptions options() {
  return {.unix_options = {}, .ucx_options = {.secret = test_secret()}};
}

// A table of thousands of ranks is compared with it, entry by entry, when a view opens.
TEST(JobTransportTest, TheSystemIsAskedOnceForTheMachine) {
  EXPECT_EQ(&this_machine(), &this_machine());
}

TEST(JobTransportTest, AutoUsesStreamsOnOneMachine) {
  std::vector<std::unique_ptr<TransportListener>> listeners;
  std::vector<std::string> addresses;
  for (int i = 0; i < 2; ++i) {
    auto listener = listen_job(options());
    ASSERT_TRUE(listener.ok()) << listener.status();
    listeners.push_back(*std::move(listener));
    addresses.push_back(listeners.back()->address());
  }
  std::thread other([&] {
    auto transport = listeners[1]->connect(Rank(1), addresses);
    ASSERT_TRUE(transport.ok()) << transport.status();
    EXPECT_TRUE(gets(**transport, 0, tag(1), 100, 1));
  });
  auto transport = listeners[0]->connect(Rank(0), addresses);
  ASSERT_TRUE(transport.ok()) << transport.status();
  EXPECT_TRUE(send(**transport, 1, tag(1), bytes_of(100, 1)).ok());
  other.join();
}

// Processes of "auto", rank i on machine i / per_machine.
Cast cast_of(int size, int per_machine) {
  const auto seen_by = [per_machine](std::vector<PeerAddress> table, Rank rank) {
    for (size_t i = 0; i < table.size(); ++i) {
      if (static_cast<int>(i) / per_machine == rank.value / per_machine) continue;
      HostAddress address = *parse_address(table[i].address);
      address.machine = "elsewhere";
      table[i].address = to_string(address);
    }
    return table;
  };
  return Cast([] { return *listen_job(options()); }, size, seen_by);
}

class AutoPeersTest : public testing::TestWithParam<int> {};

TEST_P(AutoPeersTest, NewcomersAreReachedAndServiceMessagesAndRevocationsArePassedOn) {
  Cast cast = cast_of(3, GetParam());
  for (int rank = 0; rank < 3; ++rank) cast.enter(rank, 1);
  cast.tell_all();
  expect_traffic(cast, 1);
  // Of the pairs 0-1 and 0-2, 1-2: one between processes of a machine, two between machines.
  const int64_t first = GetParam() == 1 ? 2 : 1, others = GetParam() == 3 ? 2 : 4;
  EXPECT_EQ(cast[1].connections_opened(), first);
  EXPECT_EQ(cast[2].connections_opened(), others);
  for (uint32_t view = 2; view < 5; ++view) {
    std::byte byte;
    auto waiting = cast[0].start_receive(Rank(1), tag(1, view - 1), {&byte, 1});
    cast.die(1);
    EXPECT_TRUE(accuses(cast[0].wait(std::move(waiting), kPatience), 1));
    for (const int survivor : {0, 2})
      cast[survivor].revoke(View(view - 1), Cancelled("rank 1 died"));
    EXPECT_EQ(send(cast[0], 2, tag(1, view - 1), {}).message(), "rank 1 died");
    cast.enter(1, view);
    cast.tell_all();
    expect_traffic(cast, view);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AutoPeersTest, testing::Values(1, 2, 3), [](const auto& info) {
  return "Machines" + std::to_string((3 + info.param - 1) / info.param);
});

// Service messages of both kinds and to oneself come to the thread that waits for any.
TEST_P(AutoPeersTest, ServiceMessagesComeFromWhereverTheyAreSent) {
  Cast cast = cast_of(3, GetParam());
  for (int rank = 0; rank < 3; ++rank) cast.enter(rank, 0);
  std::thread service([&] {
    std::set<int> senders;
    for (int i = 0; i < 30; ++i) {
      const auto service_message = cast[1].receive_service_message(kPatience);
      ASSERT_TRUE(service_message.ok()) << service_message.status();
      EXPECT_TRUE(is_service_message(service_message, service_message->from.value, service_tag(2),
                                     100'000, service_message->from.value));
      senders.insert(service_message->from.value);
    }
    EXPECT_EQ(senders, (std::set<int>{0, 1, 2}));
  });
  cast.tell_all();
  for (int i = 0; i < 10; ++i) {
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_TRUE(send(cast[rank], 1, service_tag(2), bytes_of(100'000, rank)).ok());
  }
  service.join();
}

TEST(JobTransportTest, AServiceMessageToOneselfComesBeforeAnybodyIsNamed) {
  Cast cast = cast_of(2, 1);
  cast.enter(0, 0);
  EXPECT_TRUE(send(cast[0], 0, service_tag(1), bytes_of(10, 1)).ok());
  EXPECT_TRUE(
      is_service_message(cast[0].receive_service_message(kPatience), 0, service_tag(1), 10, 1));
}

}  // namespace
}  // namespace evermoe
