#include "comm/unix/unix_meeting.h"

#include <gtest/gtest.h>

#include <thread>

#include "comm/transport/transport_testing.h"
#include "comm/unix/unix_transport.h"

namespace evermoe {
namespace {

TEST(UnixMeetingTest, AStrangerThatSaysNothingKeepsNobodyUp) {
  auto zero = listen_unix({});
  auto one = listen_unix({});
  const std::vector<std::string> addresses = {(*zero)->address(), (*one)->address()};
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 200; ++i) {
    auto stranger = call(Rank(0), addresses[0].substr(addresses[0].rfind(':') + 1));
    ASSERT_TRUE(stranger.ok());
    const auto babble = bytes_of(static_cast<size_t>(i % 2 * i), i);
    EXPECT_TRUE(send_all(stranger->get(), babble, Deadline(kPatience)).ok());
    strangers.push_back(*std::move(stranger));
  }
  absl::StatusOr<std::unique_ptr<Transport>> other;
  std::thread thread([&] { other = (*one)->connect(Rank(1), addresses, kPatience); });
  const auto own = (*zero)->connect(Rank(0), addresses, kPatience);
  thread.join();
  EXPECT_TRUE(own.ok()) << own.status();
  EXPECT_TRUE(other.ok()) << other.status();
}

}  // namespace
}  // namespace evermoe
