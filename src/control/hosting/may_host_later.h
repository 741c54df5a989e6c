// What becomes of a node that has been elected as the host and cannot begin to host.
#pragma once

#include "absl/status/status.h"
#include "base/error.h"

namespace evermoe {

// Whether it leaves that to others and stands for election again after a while; else the node ends,
// and says why. A job that goes on does not end because its folder cannot be written for a while:
// its workers need no host to train. Of one that has never begun people want to know, and of
// witnesses of bits that differ everybody has to. Bad input ends a node that came late with it, but
// where the job's workers live it cannot have been bad from the beginning.
inline bool may_host_later(const absl::Status& why_not, bool job_goes_on, bool has_workers) {
  if (why_not.ok() || is_hopeless(why_not)) return false;
  return has_workers || (job_goes_on && !absl::IsInvalidArgument(why_not));
}

}  // namespace evermoe
