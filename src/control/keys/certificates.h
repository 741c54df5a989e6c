// Inside the keys only: what needs OpenSSL's certificates.
#pragma once

#include "absl/status/status.h"
#include "control/keys/job_keys.h"

namespace evermoe {

// Whether the private key is the certificate's, the authority has signed that, and both are valid
// today. InvalidInput otherwise.
absl::Status check_certificates(const JobKeys& keys);

}  // namespace evermoe
