// What a job's configuration says of a member with a certain trainer.
#pragma once

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "recovery/member/member_options.h"
#include "recovery/plan/window_choice.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

// InvalidInput with the arithmetic if its copies do not fit into the memory that they may take.
absl::StatusOr<MemberOptions> member_options(const JobConfig& config, const StageTrainer& trainer,
                                             bool is_rehearsal);

// For jobs that choose how long their windows are.
WindowConditions window_conditions(const JobConfig& config, const StageTrainer& trainer,
                                   int slots_max);

}  // namespace evermoe
