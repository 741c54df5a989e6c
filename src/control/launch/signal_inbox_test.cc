#include "control/launch/signal_inbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace evermoe {
namespace {

TEST(SignalInbox, WhoIgnoresTheEndOfItsTerminalGoesOnIgnoringIt) {
  for (const bool ignored : {true, false}) {
    const auto before = ::signal(SIGHUP, ignored ? SIG_IGN : SIG_DFL);
    {
      const auto inbox = SignalInbox::open();
      ASSERT_TRUE(inbox.ok());
      ::kill(::getpid(), SIGHUP);
      ::kill(::getpid(), SIGINT);
      const std::vector<int> expected = ignored ? std::vector{SIGINT} : std::vector{SIGHUP, SIGINT};
      EXPECT_THAT((*inbox)->take(), ::testing::UnorderedElementsAreArray(expected));
    }
    ::signal(SIGHUP, before);
  }
}

using Meaning = StopRequest::Meaning;

TEST(StopRequest, TheFirstSignalDrainsAndALaterOneQuits) {
  StopRequest request;
  EXPECT_FALSE(request.is_drain_wanted());
  EXPECT_EQ(request.on_signal(absl::Seconds(100)), Meaning::kDrain);
  EXPECT_TRUE(request.is_drain_wanted());
  EXPECT_EQ(request.on_signal(absl::Seconds(102)), Meaning::kQuit);
}

// timeout(1) signals its child and then its group.
TEST(StopRequest, SignalsThatComeTogetherAreOne) {
  StopRequest request;
  EXPECT_EQ(request.on_signal(absl::Seconds(100)), Meaning::kDrain);
  EXPECT_EQ(request.on_signal(absl::Seconds(100)), Meaning::kRepeat);
  EXPECT_EQ(request.on_signal(absl::Seconds(101)), Meaning::kRepeat);
  EXPECT_EQ(request.on_signal(absl::Seconds(101) + absl::Milliseconds(1)), Meaning::kQuit);
}

// Somebody who presses the key again and again wants the end.
TEST(StopRequest, TheTimeIsCountedFromTheFirst) {
  StopRequest request;
  for (int i = 0; i <= 2; ++i)
    EXPECT_NE(request.on_signal(absl::Milliseconds(400 * i)), Meaning::kQuit) << i;
  EXPECT_EQ(request.on_signal(absl::Milliseconds(1200)), Meaning::kQuit);
}

}  // namespace
}  // namespace evermoe
