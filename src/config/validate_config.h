// The rules between keys: what each value alone cannot show.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "config/job_config.h"

namespace evermoe {

// Where each key was last set, and what to name for keys that were not.
struct KeyPlaces {
  std::string origin;
  std::map<std::string, std::string> set_at;
  const std::string& of(const std::string& key) const;
};

// InvalidInput for `key`: "place: key: found X, allowed: Y".
absl::Status not_allowed(const KeyPlaces& places, const std::string& key, const std::string& found,
                         const std::string& allowed);

// Shape, topology and nodes. REQUIRES: every value is inside its own key's range, lanes has one
// entry per stage.
absl::Status validate_config(const JobConfig& config, const KeyPlaces& places);

// InvalidInput if there are fewer nodes than racks. Where a launcher says how many nodes there are,
// the configuration alone does not tell.
absl::Status check_racks(const RunConfig& run);

// The files of [data]: that they are there, fit the vocabulary and suffice for one sequence.
absl::Status validate_data(const JobConfig& config, const KeyPlaces& places);

}  // namespace evermoe
