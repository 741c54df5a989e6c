#include "env/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

namespace evermoe {
namespace {

TEST(ProcessMemory, IsWhatTheProcessHasTouched) {
  constexpr int64_t kBytes = 64 << 20;
  constexpr int64_t kElse = 8 << 20;
  const int64_t before = process_memory(::getpid());
  EXPECT_GT(before, 0);
  void* const room =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(room, MAP_FAILED);
  EXPECT_LT(process_memory(::getpid()), before + kElse) << "none of it was touched";
  std::memset(room, 1, kBytes);
  EXPECT_GT(process_memory(::getpid()), before + kBytes - kElse);
  ::munmap(room, kBytes);
}

TEST(ProcessMemory, OfAProcessThatIsGoneIsNone) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(process_memory(pid), 0);
}

}  // namespace
}  // namespace evermoe
