#include "env/processor_wait.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/time/clock.h"
#include "env/clock.h"

namespace evermoe {
namespace {

// A process that computes for ever on the first processor that this one may use.
pid_t spinner() {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  cpu_set_t allowed, first;
  ::sched_getaffinity(0, sizeof(allowed), &allowed);
  CPU_ZERO(&first);
  for (int cpu = 0; CPU_COUNT(&first) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &first);
  }
  ::sched_setaffinity(0, sizeof(first), &first);
  while (true) asm volatile("");
}

TEST(ProcessorWait, OfTwoThatWantOneProcessorBothWaitAndWhoIsStoppedDoesNot) {
  const pid_t one = spinner(), other = spinner();
  Clock& clock = real_clock();
  const absl::Duration end = clock.now() + absl::Minutes(1);
  const auto wait_for = [&](pid_t pid, absl::Duration much) {
    while (processor_wait(pid) < much && clock.now() < end) absl::SleepFor(absl::Milliseconds(10));
    return processor_wait(pid);
  };
  EXPECT_GE(wait_for(one, absl::Milliseconds(100)), absl::Milliseconds(100));
  ::kill(one, SIGSTOP);
  int status = 0;
  ::waitpid(one, &status, WUNTRACED);
  const absl::Duration stopped = processor_wait(one);
  EXPECT_GE(wait_for(other, absl::Milliseconds(100)), absl::Milliseconds(100));
  EXPECT_EQ(processor_wait(one), stopped);
  for (const pid_t pid : {one, other}) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  }
  EXPECT_EQ(processor_wait(one), absl::ZeroDuration()) << "it is gone";
}

}  // namespace
}  // namespace evermoe
