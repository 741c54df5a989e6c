// evermoe config: shows and checks configurations, and lists the keys.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/config_arguments.h"
#include "config/config_key.h"

namespace evermoe {
namespace {

struct ConfigOptions {
  ConfigArguments config;
  bool show = false;
  bool keys = false;
};

absl::StatusOr<int> run_config(const ConfigOptions& options) {
  if (options.keys) {
    std::cout << config_keys_as_markdown();
    return 0;
  }
  if (options.config.path.empty()) {
    return InvalidInput("config: found no CONFIG, allowed: a TOML file, or --keys");
  }
  ASSIGN_OR_RETURN(const JobConfig config, options.config.load());
  std::cout << (options.show ? to_toml(config) : options.config.path + ": valid\n");
  return 0;
}

}  // namespace

void add_config_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<ConfigOptions>();
  CLI::App* command = app.add_subcommand(
      "config", "Check a job's configuration, show it in full, or list all keys.");
  command->add_option("CONFIG", options->config.path, "the job's configuration")
      ->type_name("FILE.toml");
  options->config.add_settings(*command);
  command->add_flag("--show", options->show,
                    "print the complete configuration as TOML, defaults included");
  command->add_flag("--keys", options->keys,
                    "print all keys as Markdown: meaning, allowed values, default");
  commands[command] = [options] { return run_config(*options); };
}

}  // namespace evermoe
