// evermoe run. Torch-free; registered where this binary can also be a worker.
#pragma once

#include "cli/commands.h"

namespace evermoe {

void add_run_command(CLI::App& app, CommandTable& commands);
void add_node_command(CLI::App& app, CommandTable& commands);

}  // namespace evermoe
