// evermoe inspect: what is in a configuration.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "cli/model_report.h"

namespace evermoe {
namespace {

struct InspectOptions {
  ConfigArguments config;
  bool json = false;
};

absl::StatusOr<int> inspect_config(const InspectOptions& options) {
  ASSIGN_OR_RETURN(const JobConfig config, options.config.load());
  const ModelReport report = report_model(config);
  std::cout << (options.json ? to_json(report, config) + "\n" : to_text(report, config));
  return 0;
}

}  // namespace

void add_inspect_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      app.add_subcommand("inspect", "Count the parameters and the state of a configuration's model");
  command->add_option("--config", options->config.path, "TOML file")->required();
  options->config.add_settings(*command);
  command->add_flag("--json", options->json, "print one JSON object");
  commands[command] = [options] { return inspect_config(*options); };
}

}  // namespace evermoe
