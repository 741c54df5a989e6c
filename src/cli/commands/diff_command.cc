// evermoe diff: the first difference between two checkpoints.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "cli/checkpoint_argument.h"
#include "cli/commands/commands.h"

namespace evermoe {
namespace {

constexpr int kDifferent = 1;

struct DiffOptions {
  std::string first;
  std::string second;
};

absl::StatusOr<int> compare(const DiffOptions& options) {
  ASSIGN_OR_RETURN(const auto first, open_checkpoint(real_files(), options.first));
  ASSIGN_OR_RETURN(const auto second, open_checkpoint(real_files(), options.second));
  ASSIGN_OR_RETURN(const std::optional<CheckpointDifference> difference,
                   first_difference(*first, *second));
  if (!difference) {
    std::cout << "equal: the same step, weights, moments and loss scale\n";
    return 0;
  }
  std::cout << "first difference: " << difference->where << " is " << difference->first
            << " in A and " << difference->second << " in B\n";
  return kDifferent;
}

}  // namespace

void add_diff_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand(
      "diff", "Compare the training state of two checkpoints, and name the first difference.");
  command->add_option("A", options->first, kCheckpointHelp)->type_name("DIR")->required();
  command->add_option("B", options->second, kCheckpointHelp)->type_name("DIR")->required();
  commands[command] = [options] { return compare(*options); };
}

}  // namespace evermoe
