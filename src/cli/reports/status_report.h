// The state of a running job for people and for scripts (`evermoe status`).
#pragma once

#include <string>

#include "control/controller/status/job_status.h"

namespace evermoe {

std::string to_text(const JobStatus& status);  // a few lines and two tables
// One line without its newline. What is not known is null; seconds are numbers.
std::string to_json(const JobStatus& status);
// "step 120 of 2000, view 3": one line of progress.
std::string short_text(const JobStatus& status);

}  // namespace evermoe
