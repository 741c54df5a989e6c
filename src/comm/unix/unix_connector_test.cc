#include "comm/unix/unix_connector.h"

#include <gtest/gtest.h>

#include "comm/transport/transport_testing.h"
#include "comm/unix/unix_transport.h"

namespace evermoe {
namespace {

TEST(UnixConnectorTest, AStrangerThatSaysNothingKeepsNobodyUp) {
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
  const auto own = (*zero)->connect(Rank(0), addresses);
  const auto other = (*one)->connect(Rank(1), addresses);
  ASSERT_TRUE(own.ok() && other.ok());
  EXPECT_TRUE(send(**other, 0, tag(1), {}).ok());
  EXPECT_TRUE(receive(**own, 1, tag(1), {}).ok());
}

}  // namespace
}  // namespace evermoe
