// What another user of this machine can do, in a process of its own.
#pragma once

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace evermoe {

// Runs it as the user `nobody` and returns whether it could do what it tried. REQUIRES: root, the
// only one who can become somebody else.
inline bool can_another_user(const std::function<bool()>& attempt) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_other = ::setgroups(0, nullptr) == 0 && ::setgid(65534) == 0 &&
                          ::setuid(65534) == 0 && ::setuid(0) != 0;
    ::_exit(!is_other ? 2 : attempt() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 2) << "it did not become nobody";
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

}  // namespace evermoe
