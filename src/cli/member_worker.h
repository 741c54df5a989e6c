// A worker of a protected job: a member that an agent has started (recovery/member.h).
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "cli/report_channel.h"
#include "cli/worker.h"
#include "config/job_config.h"
#include "corpus/token_source.h"

namespace evermoe {

// Until the job is over or this process has to end. `drain_requested` is asked once a step.
absl::Status run_member(const WorkerOptions& options, const JobConfig& config, const TokenParts& tokens,
                        const std::function<bool()>& drain_requested, ReportChannel& reports);

}  // namespace evermoe
