// Commits: the points of a run at which the whole job agrees on a record.
//
// A step ends with the commit that carries its verdict; an evaluation ends with one that carries its
// loss; and the end of a run needs a few to agree that everything is on disk. Commits are totally
// ordered and their order is a function of the configuration and of earlier records alone, so a rank
// that runs a stretch of the program again meets the same commits.
#pragma once

#include "base/ids.h"

namespace evermoe {

using Commit = StrongId<struct CommitName, int64_t>;

// The verdict of the step that leads to the state at `step`.
constexpr Commit verdict_commit(Step step) { return Commit(2 * step.value); }
// The evaluation of the state at `step`.
constexpr Commit evaluation_commit(Step step) { return Commit(2 * step.value + 1); }
// Commit number `index` of the closing that follows the last step of a run.
constexpr Commit closing_commit(Step last, int64_t index) { return Commit(2 * last.value + 2 + index); }

// The state that is in force at a commit, before anything later (closings: of the last step or later,
// which is good enough for asking whether a step has been committed).
constexpr Step step_of(Commit commit) { return Step(commit.value / 2); }

// Whatever is under way when `newest` is the newest commit belongs to one of the next two.
constexpr Commit last_under_way(Commit newest) { return Commit(newest.value + 2); }

}  // namespace evermoe
