// Whether what a configuration wants protected fits into the memory that it allows, before any
// worker starts. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "config/job_config.h"

namespace evermoe {

struct ProtectionFit {
  int64_t copies = 0;  // that fit on every rank
  std::string why;     // a sentence, if they are fewer than wanted
};

// Windows get shorter before copies get fewer; with one copy and windows of one slot that do not
// fit, InvalidInput with the arithmetic of the rank that needs most. REQUIRES: a valid, protected
// job.
absl::StatusOr<ProtectionFit> fit_protection(const JobConfig& config);

// Of checkpoints with a few experts: whether the images that a rank keeps in its own memory fit,
// one that it could go back to, one that is being saved and one that waits for that. InvalidInput
// with the arithmetic of the rank that needs most.
absl::Status check_image_memory(const JobConfig& config);

}  // namespace evermoe
