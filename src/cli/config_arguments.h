// A configuration file and its settings, as every command that takes one spells them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job_config.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace evermoe {

struct ConfigArguments {
  std::string path;
  std::vector<std::string> settings;

  // Declares --set.
  CLI::Option* add_settings(CLI::App& command);
  absl::StatusOr<JobConfig> load() const { return load_config(path, settings); }
};

}  // namespace evermoe
