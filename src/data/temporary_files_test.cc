#include "data/temporary_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "data/folder_testing.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;

// A process that has ended and was waited for.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

class TemporaryFilesTest : public testing::Test {
 protected:
  // Named as if that process had written it.
  std::string leave(const std::string& name, pid_t process) {
    const std::string own = absl::StrCat("-", ::getpid(), "-");
    const std::string path = absl::StrReplaceAll(temporary_name(folder_.path(name)),
                                                 {{own, absl::StrCat("-", process, "-")}});
    EXPECT_TRUE(write_file_synced(real_files(), path, "half").ok());
    return base_name(path);
  }
  std::vector<std::string> left() {
    remove_leftovers(real_files(), folder_.root());
    return real_files().list(folder_.root()).value();
  }
  TestFolder folder_;
};

TEST_F(TemporaryFilesTest, NoTwoNamesAreEqual) {
  EXPECT_NE(temporary_name("a"), temporary_name("a"));
}

TEST_F(TemporaryFilesTest, WhatAKilledProcessLeftIsRemovedAndWhatALivingOneWritesIsNot) {
  leave("tokens", dead_process());
  const std::string own = leave("tokens", ::getpid());
  EXPECT_THAT(left(), ElementsAre(own));
}

TEST_F(TemporaryFilesTest, OtherFilesStay) {
  const std::vector<std::string> names = {
      "tokens.json",    "text.tokens", "a.tmp-", "a.tmp-1", "a.tmp-otherhost-999999-0",
      "a.tmp-999999-x", "a.tmp--1-0"};
  for (const std::string& name : names)
    EXPECT_TRUE(write_file_synced(real_files(), folder_.path(name), "x").ok());
  EXPECT_THAT(left(), testing::UnorderedElementsAreArray(names));
}

TEST_F(TemporaryFilesTest, AFolderThatIsNotThereIsEmpty) {
  remove_leftovers(real_files(), folder_.path("none"));
}

}  // namespace
}  // namespace evermoe
