// Steps for nothing: a process without a role computes whole steps of one alone, so that what is
// slow the first time is not when it plays a role: memory that nobody has touched, kernels that are
// chosen or compiled, libraries that are loaded, tokens that were never read (TrainMover,
// section 4).
//
// The steps are those of the role in this job: its layers, its experts and its tokens, from the
// initial weights. What other ranks would say is made up: lanes of the stage say what this one says
// to them (comm/sandbox/sandbox_transport.h), so tokens come from all of them, and other stages
// send numbers of the size that normalised activations have. (The paper records what was said once,
// and plays it back. That needs a recording for every kind of role, which is as large as a step's
// messages, and somebody to keep it; sizes and routing are as valid without.)
//
// Nothing of it stays, and nothing real is touched: not a peer, nor a file, nor a record, which
// would be a bug of the program (CHECK).
#pragma once

#include <c10/core/Device.h>

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "config/job_config.h"
#include "data/token_source.h"

namespace evermoe {

// How long these steps took, with the captures behind them.
struct SandboxSteps {
  absl::Duration first;
  absl::Duration second;
};

// `device` is in use already (use_device()). Fails as a step does.
absl::StatusOr<SandboxSteps> run_in_sandbox(const JobConfig& config, const TokenParts& tokens,
                                            c10::Device device, Rank role);

// Of a step there: rounds until the stage holds as many as ever, and one that finds their memory
// used. The others of the job's step would be the same once more.
int64_t sandbox_micro_batches(const JobConfig& config, Rank role);

// A role of each kind that there is among these, none: in the whole job. First, inner and last
// stages are different kinds, and so are stages of other widths or other operators. By rank.
std::vector<Rank> roles_by_kind(const JobConfig& config, std::vector<Rank> among = {});

}  // namespace evermoe
