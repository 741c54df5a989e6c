// How the help of every command ends: an example, and what its exit codes mean.
#pragma once

namespace CLI {
class App;
}

namespace evermoe {

// Of every subcommand of `app`; one without an entry is a CHECK.
void add_help_endings(CLI::App& app);

}  // namespace evermoe
