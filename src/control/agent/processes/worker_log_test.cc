#include "control/agent/processes/worker_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/crash_trace.h"
#include "data/folder_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;

class WorkerLogTest : public testing::Test {
 protected:
  void write(std::string_view text) {
    ASSERT_EQ(::write(log_->fd(), text.data(), text.size()), std::ssize(text));
  }

  TestFolder folder_;
  std::unique_ptr<WorkerLog> log_ = *WorkerLog::open(folder_.path("log"));
};

TEST_F(WorkerLogTest, TheLastLinesSayWhyItCrashedAndNotWhere) {
  write("first\nCHECK failed: lanes == 2\n");
  EXPECT_THAT(log_->last_lines(1), ElementsAre("CHECK failed: lanes == 2"));
  write(absl::StrCat(kTraceBegin, "process 7\n", std::string(kTraceBytesMax - 99, 'x'), "\n"));
  EXPECT_THAT(log_->last_lines(2), ElementsAre("first", "CHECK failed: lanes == 2"));
}

TEST_F(WorkerLogTest, LinesOfAFormerProcessAreNotItsOwn) {
  write("of another\n");
  const auto next = *WorkerLog::open(log_->path());
  write("its own\n");
  EXPECT_THAT(next->last_lines(8), ElementsAre("its own"));
}

}  // namespace
}  // namespace evermoe
