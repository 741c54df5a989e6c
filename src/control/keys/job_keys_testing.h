// Keys for tests.
#pragma once

#include <memory>

#include "base/check.h"
#include "control/keys/job_keys.h"

namespace evermoe {

// Of one job, the same whenever it is called in a process.
inline std::shared_ptr<const JobKeys> test_keys() {
  static const std::shared_ptr<const JobKeys> kKeys =
      std::make_shared<const JobKeys>(make_keys().value());
  return kKeys;
}

// Of another job with every call.
inline std::shared_ptr<const JobKeys> other_keys() {
  return std::make_shared<const JobKeys>(make_keys().value());
}

}  // namespace evermoe
