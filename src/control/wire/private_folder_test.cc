// Folders of sockets: closed to others, and none is left for good.
#include "control/wire/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "comm/transport/another_user_testing.h"

namespace evermoe {
namespace {

using testing::StartsWith;

class PrivateFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string made = testing::TempDir() + "runtime-XXXXXX";
    ASSERT_NE(::mkdtemp(made.data()), nullptr);
    runtime_ = made;
    ::setenv("XDG_RUNTIME_DIR", runtime_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("XDG_RUNTIME_DIR");
    std::filesystem::remove_all(runtime_);
  }
  int folders() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(runtime_), {}));
  }
  std::string runtime_;
};

TEST_F(PrivateFolderTest, IsClosedToOthersAndEndsWithItsOwner) {
  auto folder = PrivateFolder::make();
  ASSERT_TRUE(folder.ok()) << folder.status();
  struct stat found {};
  ASSERT_EQ(::stat((*folder)->path().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0700u);
  EXPECT_THAT((*folder)->path(), StartsWith(runtime_));
  EXPECT_EQ((*folder)->address("agent"), "unix:" + (*folder)->path() + "/agent");
  std::ofstream((*folder)->path() + "/socket") << "x";
  folder->reset();
  EXPECT_EQ(folders(), 0);
}

TEST_F(PrivateFolderTest, IsInTmpWhereTheRuntimeFolderIsNotPrivate) {
  ::chmod(runtime_.c_str(), 0755);
  EXPECT_THAT(PrivateFolder::make().value()->path(), StartsWith("/tmp/evermoe-"));
  ::setenv("XDG_RUNTIME_DIR", "/no/such/folder", 1);
  EXPECT_THAT(PrivateFolder::make().value()->path(), StartsWith("/tmp/evermoe-"));
  ::setenv("XDG_RUNTIME_DIR", std::string(200, 'x').insert(0, "/").c_str(), 1);
  EXPECT_THAT(PrivateFolder::make().value()->path(), StartsWith("/tmp/evermoe-"));
}

TEST_F(PrivateFolderTest, OfKilledProcessesIsRemovedByTheNext) {
  for (int killed = 0; killed < 5; ++killed) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto folder = PrivateFolder::make();
      std::ofstream((*folder)->path() + "/controller") << "x";
      ::raise(SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(folders(), 1) << "at most what the last one left";
  }
  const auto one = PrivateFolder::make();
  const auto two = PrivateFolder::make();
  EXPECT_EQ(folders(), 2) << "and not what living ones have";
}

}  // namespace
}  // namespace evermoe
