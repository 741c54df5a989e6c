// A sender that the threads of one process use at the same time, over sockets: there, other than in
// the simulated network, they really run beside each other, and ThreadSanitizer sees them.
#include "recovery/protocol/message_sender.h"

#include <gtest/gtest.h>

#include <thread>

#include "comm/transport/deadline.h"
#include "comm/transport/rank_threads_testing.h"
#include "comm/transport/transport_testing.h"

namespace evermoe {
namespace {

TEST(MessageSender, IsUsedByTheServiceThreadAndTheControlThreadAtOnce) {
  constexpr int kMessages = 200;
  run_ranks(TransportKind::kUnix, 2, [](Transport& transport) {
    const Rank other(1 - transport.rank().value);
    MessageSender sender(transport, [](View, const absl::Status& why) { ADD_FAILURE() << why; });
    std::thread control([&] {
      for (int i = 0; i < kMessages; ++i) {
        sender.wake_service();
        sender.send(other, View(1), MessageKind::kCorrupt, MessageBytes(size_t{200'000}));
      }
    });
    // The service thread: takes what comes from both, and gives back what it has sent itself.
    for (int i = 0; i < 2 * kMessages; ++i) {
      ASSERT_TRUE(transport.receive_service_message(kPatience).ok());
      sender.reap();
    }
    control.join();
    const Deadline deadline(kPatience);
    while (sender.reap() > 0 && !deadline.passed()) std::this_thread::yield();
    EXPECT_EQ(sender.reap(), 0u);
  });
}

}  // namespace
}  // namespace evermoe
