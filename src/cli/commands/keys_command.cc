// evermoe keys: the keys of a job whose nodes have no folder in common.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "cli/commands/commands.h"
#include "control/keys/job_keys.h"

namespace evermoe {
namespace {

absl::StatusOr<int> make_new_keys(const std::string& directory) {
  RETURN_IF_ERROR(create_keys(directory));
  std::cout << absl::StrCat("new keys in ", directory,
                            ": who has a copy belongs to the job; copy the folder to every machine "
                            "(scp -p) and start its nodes with --keys\n");
  return 0;
}

}  // namespace

void add_keys_command(CLI::App& app, CommandTable& commands) {
  const auto directory = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("keys", "Make the keys by which the nodes of a job know each other.");
  command->require_subcommand(1);
  CLI::App* make = command->add_subcommand("new", "Make a folder with the keys of one job.");
  make->add_option("DIR", *directory, "the folder, which does not exist yet")
      ->type_name("DIR")
      ->required();
  commands[command] = [directory] { return make_new_keys(*directory); };
}

}  // namespace evermoe
