// What a program writes when it crashes: a bug on a machine of thousands is found by its trace, as
// nobody can make it crash there again.
#pragma once

namespace evermoe {

// How the first line of a trace begins. The rest of it are frames, of at most so many bytes in all.
inline constexpr char kTraceBegin[] = "crashed: ";
inline constexpr int kTraceBytesMax = 8 << 10;

// From now on this process writes the number of the signal and the stack of the thread to standard
// error before it dies of SIGABRT (a failed CHECK), SIGSEGV, SIGBUS, SIGILL or SIGFPE, with the
// same end as without it. `program`: argv[0]. Call it once, in main().
void trace_crashes(const char* program);

}  // namespace evermoe
