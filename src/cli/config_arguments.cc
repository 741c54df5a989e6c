#include "cli/config_arguments.h"

#include <CLI/CLI.hpp>

namespace evermoe {

CLI::Option* ConfigArguments::add_settings(CLI::App& command) {
  // One value for each --set, so that it does not swallow what follows.
  return command
      .add_option("--set", settings,
                  "change a key of the configuration; may be given more than once (keys: `evermoe "
                  "config --keys`)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

}  // namespace evermoe
