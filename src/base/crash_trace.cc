#include "base/crash_trace.h"

#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "absl/debugging/symbolize.h"

namespace evermoe {
namespace {

constexpr int kFramesMax = 32;
constexpr int kLineBytesMax = kTraceBytesMax / (kFramesMax + 1);

constexpr int kSecondsMax = 5;

// The handler runs in a process that is broken: nothing here takes memory or a lock, but for the
// first backtrace(), which may. (A call at the start would cost each process 0.3 MB.)
void write_line(const char* format, auto... values) {
  char line[kLineBytesMax];
  const int size = std::snprintf(line, sizeof(line), format, values...);
  (void)!::write(STDERR_FILENO, line, static_cast<size_t>(std::clamp(size, 0, kLineBytesMax - 1)));
}

void write_trace(int signal) {
  ::signal(SIGALRM, SIG_DFL);
  ::alarm(kSecondsMax);  // rather dead without a trace than alive
  write_line("%sprocess %d, of signal %d, at\n", kTraceBegin, static_cast<int>(::getpid()), signal);
  void* frames[kFramesMax];
  const int count = ::backtrace(frames, kFramesMax);
  for (int i = 0; i < count; ++i) {
    char name[kLineBytesMax - 32] = "?";
    (void)absl::Symbolize(static_cast<char*>(frames[i]) - 1, name, sizeof(name));  // of the call
    write_line("  %p %s\n", frames[i], name);
  }
  ::raise(signal);  // whose former action SA_RESETHAND has put back
}

}  // namespace

void trace_crashes(const char* program) {
  absl::InitializeSymbolizer(program);
  struct sigaction action = {};
  action.sa_handler = write_trace;
  action.sa_flags = SA_RESETHAND | SA_NODEFER;
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE})
    ::sigaction(signal, &action, nullptr);
}

}  // namespace evermoe
