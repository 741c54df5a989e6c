// evermoe: a subcommand for everything a user does. Without libtorch: see worker_main.cc.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "base/build_fingerprint.h"
#include "base/crash_trace.h"
#include "base/error.h"
#include "base/exit_codes.h"
#include "cli/commands/commands.h"
#include "cli/commands/help_endings.h"

namespace evermoe {
namespace {

int fail(int code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::cerr << "evermoe: " << message << "\n";
  return code;
}

int run(const CLI::App& app, const CommandTable& commands) {
  const CLI::App* chosen = app.get_subcommands().front();
  const absl::StatusOr<int> code = commands.at(chosen)();
  std::cout.flush();
  if (!code.ok()) return fail(exit_code(code.status()), std::string(code.status().message()));
  if (!std::cout) return fail(1, "standard output cannot be written");
  return *code;
}

}  // namespace
}  // namespace evermoe

int main(int argc, char** argv) {
  evermoe::trace_crashes(argv[0]);
  CLI::App app("EverMoE trains Mixture-of-Experts models on machines that fail.", "evermoe");
  app.footer("`evermoe COMMAND --help` explains a command, with an example and its exit codes.");
  app.set_version_flag("--version", std::string("evermoe ") + evermoe::build_fingerprint());
  app.require_subcommand(1);
  evermoe::CommandTable commands;
  evermoe::add_run_command(app, commands);
  evermoe::add_node_command(app, commands);
  evermoe::add_keys_command(app, commands);
  evermoe::add_operator_commands(app, commands);
  evermoe::add_move_command(app, commands);
  evermoe::add_controller_command(app, commands);
  evermoe::add_process_commands(app, commands);
  evermoe::add_inspect_command(app, commands);
  evermoe::add_verify_command(app, commands);
  evermoe::add_digest_command(app, commands);
  evermoe::add_diff_command(app, commands);
  evermoe::add_export_command(app, commands);
  evermoe::add_fetch_command(app, commands);
  evermoe::add_config_command(app, commands);
  evermoe::add_tokenize_command(app, commands);
  evermoe::add_sim_command(app, commands);
  evermoe::add_plan_command(app, commands);
  evermoe::add_forecast_command(app, commands);
  evermoe::add_place_command(app, commands);
  evermoe::add_profile_command(app, commands);
  evermoe::add_experiment_command(app, commands);
  evermoe::add_help_endings(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return evermoe::fail(evermoe::kExitBadInput,
                         std::string(error.what()) + " (see evermoe --help)");
  }
  return evermoe::run(app, commands);
}
