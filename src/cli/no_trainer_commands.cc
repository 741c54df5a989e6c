// In place of the trainer's commands where it is not built.
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/commands.h"

namespace evermoe {

void add_trainer_commands(CLI::App& app, CommandTable& commands) {
  for (const char* name : {"run", "node", "worker"}) {
    CLI::App* command = app.add_subcommand(name, "Not in this build (EVERMOE_TORCH=OFF)");
    command->allow_extras();
    commands[command] = []() -> absl::StatusOr<int> {
      return Unsupported("this build has no trainer, configure it with -DEVERMOE_TORCH=ON");
    };
  }
}

}  // namespace evermoe
