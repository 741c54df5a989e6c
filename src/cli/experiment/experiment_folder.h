// The folder of one experiment: whose it is, and the results that it keeps.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "cli/experiment/experiment_file.h"

namespace evermoe {

// Not thread-safe.
class ExperimentFolder {
 public:
  explicit ExperimentFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string at(const std::string& name) const;

  // It is this experiment's from now on: of this build of the program, the texts of the file and of
  // the job's configuration, and its traces. InvalidInput if it is another one's.
  absl::Status claim(const Experiment& experiment, const std::string& text);

  // A result that was kept before, or null.
  nlohmann::json result(const std::string& name) const;
  absl::Status keep_result(const std::string& name, const nlohmann::json& value);

 private:
  const std::string path_;
};

}  // namespace evermoe
