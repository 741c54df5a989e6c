#include "control/folder/job_end.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/exit_codes.h"
#include "data/folder_testing.h"

namespace evermoe {
namespace {

class JobEnd : public testing::Test {
 protected:
  // As a node learns of it that only sees the folder.
  std::string marked(const EndJob& end) {
    const FolderTerm term = take_next_term(real_files(), folder_.root(), "a host").value();
    EXPECT_TRUE(mark_end(real_files(), folder_.root(), term, end).ok());
    return newest_term(real_files(), folder_.root())->end.value_or("");
  }

  TestFolder folder_;
};

TEST_F(JobEnd, WhoLearnsOfItLaterEndsInTheSameWay) {
  EXPECT_TRUE(end_that(marked({.ok = true})).ok);
  EXPECT_TRUE(end_that(marked({.ok = true, .is_drained = true})).is_drained);
  const auto code_of = [&](const EndJob& end) {
    const std::string how = marked(end);
    EXPECT_EQ(exit_code(failure_of(end_that(how))), summary_of_end(how, how).exit_code);
    return summary_of_end(how, how).exit_code;
  };
  EXPECT_EQ(code_of({.reason = "a disk is full"}), kExitFailed);
  EXPECT_EQ(code_of({.bad_input = true, .reason = "another model"}), kExitBadInput);
  EXPECT_EQ(code_of({.reason = "training diverged", .is_hopeless = true}), kExitHopeless);
}

TEST_F(JobEnd, AReasonOfAnyLengthIsWritten) {
  const std::string how = marked({.reason = std::string(20'000, 'x'), .is_hopeless = true});
  EXPECT_LT(how.size(), 1024u) << "some file systems take no longer target of a link";
  EXPECT_TRUE(end_that(how).is_hopeless);
}

}  // namespace
}  // namespace evermoe
