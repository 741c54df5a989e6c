#include "control/folder/output_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/folder_testing.h"

namespace evermoe {
namespace {

using Kind = OutputLock::Kind;

absl::StatusOr<std::unique_ptr<OutputLock>> acquire(const TestFolder& folder, Kind kind) {
  return OutputLock::acquire(folder.path("run.lock"), absl::ZeroDuration(), kind);
}

TEST(OutputLock, KeepsASecondRunOut) {
  TestFolder folder;
  const auto first = acquire(folder, Kind::kAlone);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsInvalidArgument(acquire(folder, Kind::kAlone).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(acquire(folder, Kind::kAmongHosts).status()));
}

// They take the job over from each other: terms decide.
TEST(OutputLock, HostsOfAJobOnManyMachinesOnlyKeepRunsOut) {
  TestFolder folder;
  auto first = acquire(folder, Kind::kAmongHosts);
  auto second = acquire(folder, Kind::kAmongHosts);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(acquire(folder, Kind::kAlone).status()));
  first->reset();
  second->reset();
  EXPECT_TRUE(acquire(folder, Kind::kAlone).ok());
}

}  // namespace
}  // namespace evermoe
