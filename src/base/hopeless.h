// One more kind of expected failure (base/error.h): it would come again however often and wherever
// the work is tried, though nobody wrote anything wrong. End, say so, and exit with code 1.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace evermoe {

inline absl::Status Hopeless(const std::string& message) {
  return absl::FailedPreconditionError(message);
}
inline bool is_hopeless(const absl::Status& status) { return absl::IsFailedPrecondition(status); }

}  // namespace evermoe
