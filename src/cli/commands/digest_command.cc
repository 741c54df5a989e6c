// evermoe digest: one hash of the whole training state.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "cli/checkpoint_argument.h"
#include "cli/commands/commands.h"

namespace evermoe {
namespace {

absl::StatusOr<int> print_digest(const std::string& path) {
  ASSIGN_OR_RETURN(const auto checkpoint, open_checkpoint(real_files(), path));
  ASSIGN_OR_RETURN(const Fingerprint digest, checkpoint->digest());
  std::cout << to_hex(digest) << "\n";
  return 0;
}

}  // namespace

void add_digest_command(CLI::App& app, CommandTable& commands) {
  const auto checkpoint = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "digest",
      "Print one hash of a checkpoint's training state; it does not depend on topology or files.");
  command->add_option("CHECKPOINT", *checkpoint, kCheckpointHelp)->type_name("DIR")->required();
  commands[command] = [checkpoint] { return print_digest(*checkpoint); };
}

}  // namespace evermoe
