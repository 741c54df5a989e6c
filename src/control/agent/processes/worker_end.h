// What is said of a worker that has ended.
#pragma once

#include <optional>
#include <string>

#include "control/controller/controller_interface.h"
#include "control/wire/worker_report.h"
#include "env/process.h"

namespace evermoe {

// `failed`: its own last report, if it made one; `last_words`: the last line of its log. Rank, view
// and node are left to the caller. For bad input `how` is the line for the user alone.
WorkerEnded describe_end(const ExitStatus& exit, const std::optional<WorkerReport>& failed,
                         const std::string& last_words);

}  // namespace evermoe
