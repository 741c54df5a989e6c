// What copies are kept apart in, as a configuration says.
#pragma once

#include <optional>

#include "config/job_config.h"
#include "parallel/failure_domains.h"

namespace evermoe {

// The domains that a rank and its copies are in different ones of; nullopt: any other process will
// do.
std::optional<DomainLevel> copy_level_of(const ProtectionConfig& protection);

}  // namespace evermoe
