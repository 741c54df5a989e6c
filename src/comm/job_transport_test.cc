// The transport "auto" passes everything on to the kind that it has chosen. A second machine is an
// address that names one.
#include "comm/job_transport.h"

#include <gtest/gtest.h>

#include <thread>

#include "comm/cast_testing.h"
#include "comm/host_address.h"

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

// Processes of "auto": all on one machine, or each on one of its own.
Cast cast_of(int size, bool is_spread) {
  const auto seen_by = [is_spread](std::vector<PeerAddress> table, Rank rank) {
    for (size_t i = 0; is_spread && i < table.size(); ++i) {
      if (i == static_cast<size_t>(rank.value)) continue;
      HostAddress address = *parse_address(table[i].address);
      address.machine = "elsewhere";
      table[i].address = to_string(address);
    }
    return table;
  };
  return Cast([] { return *listen_job({}); }, size, seen_by);
}

class AutoMeetingTest : public testing::TestWithParam<bool> {};

TEST_P(AutoMeetingTest, NewcomersAreMetAndLettersAndRevocationsArePassedOn) {
  Cast cast = cast_of(3, GetParam());
  for (int rank = 0; rank < 3; ++rank) cast.enter(rank, 1);
  EXPECT_TRUE(all_ok(cast.meet_all()));
  expect_traffic(cast, 1);
  for (uint32_t view = 2; view < 5; ++view) {
    std::byte byte;
    auto waiting = cast[0].start_receive(Rank(1), tag(1, view - 1), {&byte, 1});
    cast.die(1);
    EXPECT_TRUE(accuses(cast[0].wait(std::move(waiting), kPatience), 1));
    for (const int survivor : {0, 2}) cast[survivor].revoke(View(view - 1), Cancelled("rank 1 died"));
    EXPECT_EQ(send(cast[0], 2, tag(1, view - 1), {}).message(), "rank 1 died");
    cast.enter(1, view);
    EXPECT_TRUE(all_ok(cast.meet_all()));
    expect_traffic(cast, view);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AutoMeetingTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "AcrossMachines" : "OnOneMachine"; });

// Before the choice there are only letters to oneself.
TEST(JobTransportTest, TheChoiceWakesTheThreadThatWaitsForALetter) {
  for (const bool is_spread : {false, true}) {
    Cast cast = cast_of(2, is_spread);
    cast.enter(0, 0);
    cast.enter(1, 0);
    std::thread service([&] { EXPECT_TRUE(is_letter(cast[1].receive_letter(kPatience), 0, letter_tag(2), 10, 2)); });
    EXPECT_TRUE(send(cast[0], 0, letter_tag(1), bytes_of(10, 1)).ok());
    EXPECT_TRUE(is_letter(cast[0].receive_letter(kPatience), 0, letter_tag(1), 10, 1));
    EXPECT_TRUE(all_ok(cast.meet_all()));
    EXPECT_TRUE(send(cast[0], 1, letter_tag(2), bytes_of(10, 2)).ok());
    service.join();
  }
}

}  // namespace
}  // namespace evermoe
