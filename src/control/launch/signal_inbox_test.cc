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

}  // namespace
}  // namespace evermoe
