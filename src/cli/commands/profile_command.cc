// evermoe profile: measures this machine and writes it as a cluster that plans and forecasts read;
// or a job, as it runs here under each strategy, for predictions of experiments.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/commands/machine_rates.h"
#include "cli/commands/product_rate.h"
#include "cli/config_arguments.h"
#include "cli/experiment/profile_runs.h"
#include "cli/output_file.h"
#include "env/files.h"
#include "planner/cluster_model/measured_cluster.h"
#include "protection/strategy/strategy_names.h"

namespace evermoe {
namespace {

constexpr int64_t kMebibyte = 1 << 20;
constexpr int64_t kMemoryBytes = 128 * kMebibyte;

struct ProfileOptions {
  std::string directory = ".";
  std::string out;
  int64_t disk_mib = 512;
  int64_t stream_mib = 1024;
  bool json = false;
  int echo = -1;
  ConfigArguments job;  // path empty: the machine
  std::vector<std::string> strategies;
  ProfileRunOptions runs;
  double run_seconds_max = 3600;
};

absl::StatusOr<MeasuredMachine> measure(const ProfileOptions& options) {
  MeasuredMachine machine;
  machine.processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  machine.memory_bytes = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  ASSIGN_OR_RETURN(const DiskRates disk,
                   disk_rates(options.directory, options.disk_mib * kMebibyte));
  machine.disk_write_bytes_per_second = disk.write_bytes_per_second;
  machine.disk_read_bytes_per_second = disk.read_bytes_per_second;
  ASSIGN_OR_RETURN(const StreamRates stream,
                   stream_rates("/proc/self/exe", options.stream_mib * kMebibyte));
  machine.stream_bytes_per_second = stream.bytes_per_second;
  machine.stream_latency_seconds = stream.latency_seconds;
  machine.copy_bytes_per_second = memory_copy_rate(kMemoryBytes);
  machine.memory_bytes_per_second = memory_traffic_rate(machine.processors, kMemoryBytes);
  // A machine without PyTorch has the other rates all the same.
  const absl::StatusOr<double> products = product_rate();
  if (products.ok())
    machine.flops = *products;
  else
    std::cerr << "evermoe: products of matrices are not measured: " << products.status().message()
              << "\n";
  return machine;
}

absl::StatusOr<std::vector<StrategyKind>> strategies_of(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!strategy_kind_of(name))
      return InvalidInput(
          absl::StrCat("--strategy: found ", name, ", allowed: ", strategy_names()));
  }
  std::vector<StrategyKind> kinds;
  for (const StrategyKind kind : kStrategyKinds) {
    if (names.empty() || std::ranges::count(names, to_string(kind)) > 0) kinds.push_back(kind);
  }
  return kinds;
}

absl::StatusOr<int> profile_job(const ProfileOptions& options) {
  if (options.json) return InvalidInput("--json: found with --job, allowed: without");
  ASSIGN_OR_RETURN(const JobConfig job, options.job.load());
  ProfileRunOptions how = options.runs;
  how.config = options.job.path;
  how.settings = options.job.settings;
  how.prepared = true;
  ASSIGN_OR_RETURN(how.strategies, strategies_of(options.strategies));
  const std::string folder =
      join_path(options.directory, absl::StrCat("evermoe-profile-", ::getpid()));
  RETURN_IF_ERROR(real_files().create_directories(folder));
  absl::Cleanup remove = [&] { remove_tree(real_files(), folder).IgnoreError(); };
  ASSIGN_OR_RETURN(const auto runner, JobRunner::open(folder, options.run_seconds_max));
  const absl::StatusOr<ProfileOutcome> measured = measure_profile(how, job, folder, *runner);
  // Its error names the log there.
  if (absl::IsFailedPrecondition(measured.status())) std::move(remove).Cancel();
  ASSIGN_OR_RETURN(const ProfileOutcome outcome, measured);
  if (outcome.signal != 0) return 128 + outcome.signal;
  if (options.out.empty())
    std::cout << to_toml(outcome.profile);
  else
    RETURN_IF_ERROR(replace_file(real_files(), options.out, to_toml(outcome.profile)));
  return 0;
}

absl::StatusOr<int> profile(const ProfileOptions& options) {
  if (options.echo >= 0) {
    RETURN_IF_ERROR(echo_messages(options.echo));
    return 0;
  }
  if (!options.out.empty()) RETURN_IF_ERROR(check_output_file(real_files(), "--out", options.out));
  if (!options.job.path.empty()) return profile_job(options);
  if (!options.job.settings.empty())
    return InvalidInput("--set: found without --job, allowed: with it");
  ASSIGN_OR_RETURN(const MeasuredMachine machine, measure(options));
  if (!options.out.empty()) {
    RETURN_IF_ERROR(replace_file(real_files(), options.out, measured_toml(machine)));
  }
  if (options.json || options.out.empty()) {
    std::cout << (options.json ? to_json(machine) : measured_toml(machine));
  }
  return 0;
}

}  // namespace

void add_profile_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<ProfileOptions>();
  CLI::App* command = app.add_subcommand("profile",
                                         "Measure this machine (memory, disk, streams, matrix "
                                         "products) as a cluster for plan and forecast, or what a "
                                         "job costs here under each strategy.");
  command
      ->add_option("--job", options->job.path,
                   "measure this job on the runtime instead, with real runs and real kills")
      ->type_name("CONFIG.toml");
  options->job.add_settings(*command);
  command
      ->add_option("--strategy", options->strategies,
                   "with --job: measure this one, and none; given again, several; all unless given")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command->add_option("--rounds", options->runs.rounds, "with --job: runs of each strategy")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--kills", options->runs.kills, "with --job: workers that each run loses")
      ->type_name("N")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command
      ->add_option("--run-seconds-max", options->run_seconds_max,
                   "with --job: a run that takes longer is stopped, and the profile fails")
      ->type_name("S")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  command->add_option("--directory", options->directory, "folder on the disk to measure")
      ->type_name("DIR")
      ->capture_default_str();
  command
      ->add_option("--out", options->out, "write the cluster to this file instead of printing it")
      ->type_name("FILE.toml");
  command->add_option("--disk-mib", options->disk_mib, "how much to write and read, in MiB")
      ->type_name("N")
      ->check(CLI::Range(4, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--stream-mib", options->stream_mib,
                   "how much to send to another process, in MiB")
      ->type_name("N")
      ->check(CLI::Range(16, 1 << 20))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print the measurements as one JSON object");
  command->add_option("--echo", options->echo)->group("");  // the other process of the stream
  commands[command] = [options] { return profile(*options); };
}

}  // namespace evermoe
