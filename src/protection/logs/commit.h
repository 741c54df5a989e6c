// Commits: the points of a run at which the whole job agrees on a record.
//
// A step ends with the commit that carries its verdict; every batch of an evaluation ends with one
// that carries its loss; and the end of a run needs a few to agree that everything is on disk.
// Commits are totally ordered and their order is a function of the configuration and of earlier
// records alone, so a rank that runs a stretch of the program again meets the same commits.
#pragma once

#include "base/ids.h"

namespace evermoe {

using Commit = StrongId<struct CommitName, int64_t>;

// No evaluation has more batches.
inline constexpr int64_t kEvaluationBatchesMax = (int64_t{1} << 21) - 1;
inline constexpr int64_t kCommitsOfStep = kEvaluationBatchesMax + 1;

// The verdict of the step that leads to the state at `step`.
constexpr Commit verdict_commit(Step step) { return Commit(kCommitsOfStep * step.value); }
// A batch of the evaluation of the state at `step`. 0 <= batch < kEvaluationBatchesMax.
constexpr Commit evaluation_commit(Step step, int64_t batch = 0) {
  return Commit(verdict_commit(step).value + 1 + batch);
}
// Commit number `index` of the closing that follows the last step of a run.
constexpr Commit closing_commit(Step last, int64_t index) {
  return Commit(verdict_commit(Step(last.value + 1)).value + index);
}

// The state that is in force at a commit, before anything later (closings: of the last step or
// later, which is good enough for asking whether a step has been committed).
constexpr Step step_of(Commit commit) { return Step(commit.value / kCommitsOfStep); }

// Whatever is under way when `newest` is the newest commit belongs to the one after it: a batch of
// that step's evaluation, or the next step's verdict.
constexpr Commit last_under_way(Commit newest) {
  return newest < Commit(0) ? newest : verdict_commit(Step(step_of(newest).value + 1));
}

}  // namespace evermoe
