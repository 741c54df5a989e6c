#include "control/agent/processes/worker_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdlib>

#include "data/folder_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;

constexpr char kTunables[] = "GLIBC_TUNABLES";

// What a worker finds in the environment.
std::vector<std::string> tunables() {
  const TestFolder folder;
  const auto worker = *WorkerProcess::start({.program = "/bin/sh",
                                             .arguments = {"-c", "echo \"$GLIBC_TUNABLES\""},
                                             .log_path = folder.path("log")});
  pollfd end{worker->exit_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, /*timeout=*/60'000), 1);
  return worker->last_lines(1);
}

TEST(WorkerProcess, TakesLargePagesAndOneArenaUnlessThereAreSettingsOfOnesOwn) {
  ASSERT_EQ(::unsetenv(kTunables), 0);
  EXPECT_THAT(tunables(), ElementsAre("glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1"));
  ASSERT_EQ(::setenv(kTunables, "glibc.malloc.check=1", 1), 0);
  EXPECT_THAT(tunables(), ElementsAre("glibc.malloc.check=1"));
  ASSERT_EQ(::unsetenv(kTunables), 0);
}

}  // namespace
}  // namespace evermoe
