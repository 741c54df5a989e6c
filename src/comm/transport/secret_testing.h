// A secret for tests, which their processes share because it is always the same.
#pragma once

#include <string>

#include "comm/transport/job_secret.h"

namespace evermoe {

inline JobSecret test_secret() { return JobSecret(std::string(JobSecret::kBytes, 't')); }

}  // namespace evermoe
