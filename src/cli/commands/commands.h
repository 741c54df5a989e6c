// The subcommands of `evermoe`: one file each, which declares its options and what they start.
#pragma once

#include <functional>
#include <map>

#include "absl/status/statusor.h"

namespace CLI {
class App;
}

namespace evermoe {

// What each subcommand does once its options are parsed: returns the process's exit code, or an
// error, which is printed as one line on stderr and exits as base/exit_codes.h says.
using CommandTable = std::map<const CLI::App*, std::function<absl::StatusOr<int>()>>;

void add_config_command(CLI::App& app, CommandTable& commands);
void add_inspect_command(CLI::App& app, CommandTable& commands);
void add_tokenize_command(CLI::App& app, CommandTable& commands);
void add_verify_command(CLI::App& app, CommandTable& commands);
void add_digest_command(CLI::App& app, CommandTable& commands);
void add_diff_command(CLI::App& app, CommandTable& commands);
void add_sim_command(CLI::App& app, CommandTable& commands);
void add_export_command(CLI::App& app, CommandTable& commands);
void add_fetch_command(CLI::App& app, CommandTable& commands);
void add_plan_command(CLI::App& app, CommandTable& commands);
void add_forecast_command(CLI::App& app, CommandTable& commands);
void add_place_command(CLI::App& app, CommandTable& commands);
void add_profile_command(CLI::App& app, CommandTable& commands);

void add_experiment_command(CLI::App& app, CommandTable& commands);
void add_run_command(CLI::App& app, CommandTable& commands);
void add_node_command(CLI::App& app, CommandTable& commands);
void add_keys_command(CLI::App& app, CommandTable& commands);
// status, drain and stop.
void add_operator_commands(CLI::App& app, CommandTable& commands);
void add_move_command(CLI::App& app, CommandTable& commands);
void add_controller_command(CLI::App& app, CommandTable& commands);
// controller-process and agent-process.
void add_process_commands(CLI::App& app, CommandTable& commands);

}  // namespace evermoe
