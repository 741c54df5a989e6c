// The commands that are processes of a job, started by `evermoe run` and `evermoe node`.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "cli/commands/commands.h"
#include "control/launch/control_processes.h"

namespace evermoe {
namespace {

template <typename Options>
void add_process_command(CLI::App& app, CommandTable& commands, const char* name, const char* what,
                         absl::Status (*run)(const Options&)) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(name, what);
  add_flags(*command, *options);
  commands[command] = [options, run]() -> absl::StatusOr<int> {
    RETURN_IF_ERROR(run(*options));
    return 0;
  };
}

}  // namespace

void add_process_commands(CLI::App& app, CommandTable& commands) {
  add_process_command(app, commands, "controller-process",
                      "Decide for a job: who plays which role, and what is done about failures "
                      "(started by `evermoe run`).",
                      run_controller);
  add_process_command(app, commands, "agent-process",
                      "Start and watch the workers of one node (started by `evermoe run`).",
                      run_agent);
}

}  // namespace evermoe
