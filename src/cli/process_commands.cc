// The commands that are processes of a job, started by `evermoe run` or by a cluster's launcher.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "cli/build_fingerprint.h"
#include "cli/commands.h"
#include "cli/worker_program.h"
#include "cluster/control_processes.h"

namespace evermoe {
namespace {

// Becomes the workers' program; returns only if it cannot.
absl::Status become_worker(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const std::string program, find_worker(/*option=*/""));
  std::vector<std::string> words = {program, "train", "--build", build_fingerprint()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  return InvalidInput(absl::StrCat(program, ": cannot execute: ", std::strerror(errno)));
}

void add_worker_command(CLI::App& app, CommandTable& commands) {
  CLI::App* command = app.add_subcommand(
      "worker", "Play one role of a job. Launchers (torchrun, srun, mpirun) start one per rank; its options are those of `evermoe-worker train`.");
  command->set_help_flag();
  command->prefix_command();
  commands[command] = [command]() -> absl::StatusOr<int> { return become_worker(command->remaining()); };
}

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
  add_worker_command(app, commands);
  add_process_command(app, commands, "controller", "Decide for a job: who plays which role, and what is done about failures (started by `evermoe run`).", run_controller);
  add_process_command(app, commands, "agent", "Start and watch the workers of one node (started by `evermoe run`).", run_agent);
}

}  // namespace evermoe
