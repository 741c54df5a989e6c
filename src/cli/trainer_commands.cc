// The commands that train: `run` on this machine, `worker` for a cluster's own launcher.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/run_command.h"
#include "cli/worker.h"

namespace evermoe {

namespace {

void add_worker_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<WorkerOptions>();
  options->rank = Rank(-1);
  CLI::App* command = app.add_subcommand(
      "worker", "Play one role of a job; for launchers (torchrun, srun, mpirun) that start one per rank");
  command->add_option("--config", options->config_path, "TOML file")->required();
  command->add_option("--set", options->settings, "key=value, changes the configuration")->take_all();
  command->add_option("--out", options->out, "output directory of the job, seen by all workers")->required();
  command->add_option("--rank", options->rank.value, "this worker's rank (else from the launcher's environment)");
  command->add_option("--world-size", options->world_size, "number of workers (else from the environment)");
  command->add_option("--rendezvous", options->rendezvous, "HOST:PORT of the rendezvous (else rank 0 at MASTER_ADDR)");
  command->add_flag("--serve-rendezvous", options->serve_rendezvous, "this worker serves the rendezvous");
  command->add_option("--join-seconds", options->join_seconds, "how long to wait for the other workers");
  command->add_option("--report-fd", options->report_fd, "descriptor on which a supervisor listens");
  commands[command] = [options]() -> absl::StatusOr<int> {
    RETURN_IF_ERROR(complete_from_environment(*options));
    RETURN_IF_ERROR(run_worker(*options));
    return 0;
  };
}

}  // namespace

void add_trainer_commands(CLI::App& app, CommandTable& commands) {
  add_run_command(app, commands);
  add_worker_command(app, commands);
}

}  // namespace evermoe
