#include "env/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(30);

SpawnOptions shell(const std::string& script) {
  return {.program = "sh", .arguments = {"-c", script}};
}

// Runs a script and returns what it printed.
std::string output_of(SpawnOptions options) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  options.stdout_fd = ends[1];
  auto child = spawn(options).value();
  ::close(ends[1]);
  std::string text;
  char buffer[256];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof(buffer))) > 0;) text.append(buffer, got);
  ::close(ends[0]);
  EXPECT_TRUE(child->wait(kLong).value().ok());
  return text;
}

TEST(ProcessTest, ReportsExitCodeAndSignal) {
  auto exits = spawn(shell("exit 3")).value();
  EXPECT_EQ(exits->wait(kLong).value(), (ExitStatus{3, 0}));
  EXPECT_EQ(exits->wait(kLong).value(), (ExitStatus{3, 0})) << "asking again is fine";
  EXPECT_TRUE(absl::IsNotFound(exits->kill(SIGTERM)));
  auto killed = spawn(shell("exec sleep 100")).value();
  EXPECT_FALSE(killed->try_wait().has_value());
  EXPECT_TRUE(absl::IsDeadlineExceeded(killed->wait(absl::Milliseconds(20)).status()));
  ASSERT_TRUE(killed->kill(SIGKILL).ok());
  EXPECT_EQ(to_string(killed->wait(kLong).value()), "killed by signal 9 (Killed)");
}

TEST(ProcessTest, ExitDescriptorBecomesReadable) {
  auto child = spawn(shell("exit 0")).value();
  pollfd waiting{child->exit_fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 30000), 1);
  EXPECT_TRUE(child->try_wait().has_value());
}

TEST(ProcessTest, WhatCannotStartIsAnErrorHere) {
  const auto missing = spawn({.program = "/no/such/program"});
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/no/such/program"));
  EXPECT_TRUE(absl::IsNotFound(spawn({.program = "no-such-name-in-path"}).status()));
  SpawnOptions options = shell("exit 0");
  options.working_directory = "/no/such/folder";
  EXPECT_TRUE(absl::IsInvalidArgument(spawn(options).status()));
}

TEST(ProcessTest, EnvironmentIsAddedAndReplaced) {
  ::setenv("EVERMOE_TEST_KEPT", "kept", 1);
  ::setenv("EVERMOE_TEST_REPLACED", "old", 1);
  SpawnOptions options =
      shell("echo $EVERMOE_TEST_KEPT $EVERMOE_TEST_REPLACED $EVERMOE_TEST_NEW; pwd");
  options.environment = {{"EVERMOE_TEST_REPLACED", "new"}, {"EVERMOE_TEST_NEW", "1=2"}};
  options.working_directory = "/";
  EXPECT_EQ(output_of(options), "kept new 1=2\n/\n");
}

TEST(ProcessTest, OnlyNamedDescriptorsAreInherited) {
  int wanted[2];
  int other[2];
  ASSERT_EQ(::pipe(wanted), 0);
  ASSERT_EQ(::pipe(other), 0);  // without CLOEXEC: must be closed all the same
  SpawnOptions options = shell(absl::StrCat("echo hello >&", wanted[1], "; test ! -e /dev/fd/",
                                            other[1], " && echo closed"));
  options.inherited_fds = {wanted[1]};
  EXPECT_EQ(output_of(options), "closed\n");
  char buffer[6] = {};
  EXPECT_EQ(::read(wanted[0], buffer, 6), 6);
  EXPECT_STREQ(std::string(buffer, 5).c_str(), "hello");
  for (int fd : {wanted[0], wanted[1], other[0], other[1]}) ::close(fd);
}

TEST(ProcessTest, StandardDescriptorsMayBeSwapped) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  SpawnOptions options = shell("echo to-stderr >&2");
  options.stderr_fd = ends[1];
  options.stdout_fd = 2;
  auto child = spawn(options).value();
  ::close(ends[1]);
  char buffer[32] = {};
  EXPECT_EQ(::read(ends[0], buffer, sizeof(buffer)), 10);
  ::close(ends[0]);
  EXPECT_TRUE(child->wait(kLong).value().ok());
}

TEST(ProcessTest, GroupKillReachesGrandchildren) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  SpawnOptions options = shell("sleep 100 & wait");
  options.stdout_fd = ends[1];  // held open by the grandchild too
  options.own_group = true;
  auto child = spawn(options).value();
  ::close(ends[1]);
  ASSERT_TRUE(child->kill_group(SIGKILL).ok());
  EXPECT_EQ(child->wait(kLong).value().signal, SIGKILL);
  pollfd waiting{ends[0], POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 30000), 1) << "the grandchild still holds the pipe";
  ::close(ends[0]);
}

TEST(ProcessTest, ChildDiesWithItsParent) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    SpawnOptions options{.program = "sleep",
                         .arguments = {"100"}};  // no shell: its child would live on
    options.parent_death_signal = SIGKILL;
    options.inherited_fds = {ends[1]};
    auto child = spawn(options);
    ::kill(::getpid(), SIGKILL);
  }
  ::close(ends[1]);
  pollfd waiting{ends[0], POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 30000), 1) << "the child outlived its parent";
  ::close(ends[0]);
}

TEST(ProcessTest, DestroyingARunningChildKillsIt) {
  pid_t pid = 0;
  {
    auto child = spawn(shell("exec sleep 100")).value();
    pid = child->pid();
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

}  // namespace
}  // namespace evermoe
