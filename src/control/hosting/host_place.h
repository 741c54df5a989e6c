// Where a job can be hosted, and whether somebody does there.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace evermoe {

// Somebody listens at HOST:PORT, as far as a connection shows within `patience`.
bool is_answered(const std::string& address, absl::Duration patience);

// Ok: this machine has the address HOST:PORT, and nobody listens there. InvalidInput if the text is
// no such address, else Internal with the reason.
absl::Status check_can_listen(const std::string& address);

}  // namespace evermoe
