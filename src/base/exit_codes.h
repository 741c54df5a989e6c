// What the exit codes of `evermoe run`, `evermoe node` and the workers mean: the one table, for
// people (--help, docs/cluster.md) and for scripts that start a job again.
#pragma once

namespace evermoe {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitBadInput = 2;
inline constexpr int kExitHopeless = 4;
inline constexpr int kExitSignal = 128;  // + the number of a signal that came twice

struct ExitCodeMeaning {
  const char* code;
  const char* meaning;
};
inline constexpr ExitCodeMeaning kExitCodes[] = {
    {"0",
     "done, nothing to do, or drained: all have saved and ended because somebody asked for it"},
    {"N", "drained, with --drained-exit-code N: the same command goes on"},
    {"1", "failed; the same command may help, and goes on from the newest checkpoint"},
    {"2", "bad input: a flag, the configuration, the data, or machines that compute other bits"},
    {"4", "failed, and the same command would fail again, or somebody has stopped the job"},
    {"128+N", "ended at once because signal N came twice"},
};

}  // namespace evermoe
