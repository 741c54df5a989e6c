// evermoe inspect: what is in a checkpoint, or what a configuration will make.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "cli/checkpoint_argument.h"
#include "cli/commands/commands.h"
#include "cli/config_arguments.h"
#include "cli/reports/inspect_checkpoint_report.h"
#include "cli/reports/model_report.h"

namespace evermoe {
namespace {

struct InspectOptions {
  std::string checkpoint;
  ConfigArguments config;
  bool json = false;
};

template <typename... Arguments>
int print(bool json, const Arguments&... report) {
  std::cout << (json ? to_json(report...) + "\n" : to_text(report...));
  return 0;
}

absl::StatusOr<int> inspect(const InspectOptions& options) {
  if (options.checkpoint.empty() == options.config.path.empty()) {
    return InvalidInput(
        options.checkpoint.empty()
            ? "inspect: found nothing to inspect, allowed: a CHECKPOINT or --config FILE"
            : "inspect: found a CHECKPOINT and --config FILE, allowed: one of them");
  }
  if (options.checkpoint.empty()) {
    ASSIGN_OR_RETURN(const JobConfig config, options.config.load());
    return print(options.json, report_model(config), config);
  }
  if (!options.config.settings.empty()) {
    return InvalidInput(
        "inspect: found --set with a CHECKPOINT, allowed: --set with --config FILE");
  }
  ASSIGN_OR_RETURN(const auto checkpoint, open_checkpoint(real_files(), options.checkpoint));
  return print(options.json, report_checkpoint(*checkpoint));
}

}  // namespace

void add_inspect_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand(
      "inspect",
      "Describe a checkpoint, or count the parameters and the memory of a configuration's model.");
  command->add_option("CHECKPOINT", options->checkpoint, kCheckpointHelp)->type_name("DIR");
  command
      ->add_option("--config", options->config.path,
                   "a job's configuration, instead of a checkpoint")
      ->type_name("FILE.toml");
  options->config.add_settings(*command);
  command->add_flag("--json", options->json, "print one JSON object");
  commands[command] = [options] { return inspect(*options); };
}

}  // namespace evermoe
