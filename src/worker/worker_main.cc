// evermoe-worker: the program that computes. It alone links libtorch; agents start one for every
// role.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/build_fingerprint.h"
#include "base/crash_trace.h"
#include "base/error.h"
#include "base/exit_codes.h"
#include "control/wire/control_client.h"
#include "tensor/arithmetic_identity.h"
#include "tensor/compute_device.h"
#include "tensor/compute_threads.h"
#include "tensor/product_rate.h"
#include "worker/worker.h"
#include "worker/worker_device.h"

namespace evermoe {
namespace {

struct TrainOptions {
  WorkerOptions worker;
  std::string build;  // of the program that starts this one; empty: not compared
};

// Programs of different builds would not understand each other, or would and compute something
// else.
absl::Status check_build(const std::string& build) {
  if (build.empty() || build == build_fingerprint()) return absl::OkStatus();
  return InvalidInput(absl::StrCat("evermoe is of build ", build, ", evermoe-worker of build ",
                                   build_fingerprint(), "; install both from one build"));
}

void add_train(CLI::App& app, TrainOptions& options) {
  WorkerOptions& worker = options.worker;
  app.add_option("--config", worker.config_path, "the job's stored configuration")
      ->type_name("FILE")
      ->required();
  app.add_option("--out", worker.out, "output folder of the job, seen by all workers")
      ->type_name("DIR")
      ->required();
  CLI::Option* const since =
      app.add_option("--since", worker.since.value, "the view from which this worker joins")
          ->type_name("N");
  CLI::Option_group* const role = app.add_option_group("role");
  role->add_option("--rank", worker.rank.value, "the role")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber)
      ->needs(since);
  role->add_flag("--standby", worker.is_standby, "play none before the agent says so");
  role->require_option(1);
  app.add_option_function<std::vector<int32_t>>(
         "--for",
         [&worker](const std::vector<int32_t>& roles) {
           for (const int32_t rank : roles) worker.warms_up_for.emplace_back(rank);
         },
         "a role that the standby warms up for (default: all)")
      ->type_name("N");
  app.add_option("--start", worker.start, "the number of this start, larger than those before")
      ->type_name("N");
  app.add_option("--agent", worker.agent, "where the agent listens that started this worker")
      ->type_name("HOST:PORT")
      ->required();
  app.add_option("--secret", worker.secret, "the job's secret, for connections between machines")
      ->type_name("FILE");
  app.add_option("--node", worker.node, "the node of the agent")->type_name("N");
  app.add_option("--term", worker.term.number, "the run's term of the output folder")
      ->type_name("N");
  app.add_option("--term-owner", worker.term.owner, "whose term it is")->type_name("WHO");
  app.add_option("--term-job", worker.term.job, "the job's name in it")->type_name("NAME");
  app.add_option("--term-host", worker.term.hosts_before, "terms that the job had before")
      ->type_name("N");
  app.add_option("--faults", worker.faults, "the faults that are rehearsed")->type_name("FILE");
  app.add_option("--faults-began", worker.faults_began,
                 "when the job began, in seconds of the machine's clock")
      ->type_name("S");
  app.add_option("--build", options.build, "refuse to run unless this is the program's build")
      ->type_name("BUILD");
}

absl::Status train(const TrainOptions& options) {
  const WorkerOptions& worker = options.worker;
  const absl::Status same = check_build(options.build);
  if (same.ok()) return worker.is_standby ? run_standby(worker) : run_worker(worker);
  if (worker.is_standby) return same;
  ControlClient client({worker.agent, worker.rank, worker.since});
  return close_line(client, same);
}

absl::Status print(const std::string& text) {
  std::cout << text;
  std::cout.flush();
  return std::cout ? absl::OkStatus() : Internal("standard output cannot be written");
}

absl::Status print_product_rate() {
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  return print(absl::StrFormat("%.17g\n", fp32_product_rate(threads)));
}

absl::Status print_arithmetic(int threads, DeviceChoice wanted) {
  set_compute_threads(threads);
  ASSIGN_OR_RETURN(const at::Device device, device_here(wanted));
  use_device(device);
  return print(arithmetic_identity(device));
}

int fail(int code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::cerr << "evermoe-worker: " << message << "\n";
  return code;
}

}  // namespace
}  // namespace evermoe

int main(int argc, char** argv) {
  using namespace evermoe;
  trace_crashes(argv[0]);
  CLI::App app("The program of EverMoE's workers. People use `evermoe`, which starts it.",
               "evermoe-worker");
  app.set_version_flag("--version", absl::StrCat("evermoe-worker ", build_fingerprint()));
  app.require_subcommand(1);
  TrainOptions options;
  CLI::App* train_command = app.add_subcommand("train", "Play one role of a job.");
  add_train(*train_command, options);
  app.add_subcommand(
      "product-rate",
      "Print how many floating-point operations per second FP32 products reach here.");
  int threads = 1;
  CLI::App* arithmetic_command = app.add_subcommand(
      "arithmetic", "Print what has to be equal on all machines of a job for equal bits.");
  arithmetic_command->add_option("--threads", threads, "run.threads of the job")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  DeviceChoice device = DeviceChoice::kAuto;
  arithmetic_command->add_option("--device", device, "train.device of the job")
      ->transform(CLI::CheckedTransformer(device_choices()));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return fail(kExitBadInput, std::string(error.what()) + " (see evermoe-worker --help)");
  }
  const absl::Status status = train_command->parsed()        ? train(options)
                              : arithmetic_command->parsed() ? print_arithmetic(threads, device)
                                                             : print_product_rate();
  return status.ok() ? 0 : fail(exit_code(status), std::string(status.message()));
}
