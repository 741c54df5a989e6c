// evermoe experiment: strategies under the same failures, on the real runtime.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/experiment/experiment_page.h"
#include "cli/experiment/experiment_results.h"
#include "cli/experiment/experiment_runs.h"
#include "env/files.h"

namespace evermoe {
namespace {

absl::StatusOr<int> experiment(const ExperimentOptions& options) {
  ASSIGN_OR_RETURN(const ExperimentOutcome outcome, run_experiment(options));
  if (outcome.signal != 0 && outcome.runs.empty()) return 128 + outcome.signal;
  const nlohmann::json summed = report_of(outcome.runs);
  const std::string report = summed.dump() + "\n";
  const std::string table = csv_of(outcome.runs);
  const std::string title = absl::StrCat("Experiment: ", options.file);
  const auto write = [&](const std::string& name, const std::string& text) {
    return replace_file(real_files(), join_path(options.out, name), text);
  };
  RETURN_IF_ERROR(write("report.json", report));
  RETURN_IF_ERROR(write("runs.csv", table));
  RETURN_IF_ERROR(write("report.html", to_html(experiment_page(title, summed, outcome.profile))));
  if (outcome.signal == 0) {
    std::cout << (options.json ? report : table);
    return 0;
  }
  std::cerr << "interrupted after " << outcome.runs.size() << " runs: they are in "
            << join_path(options.out, "report.json") << "; the same command goes on\n";
  return 128 + outcome.signal;
}

}  // namespace

void add_experiment_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<ExperimentOptions>();
  CLI::App* command = app.add_subcommand("experiment",
                                         "Run a job with several strategies under the same "
                                         "failures, with real kills, and compare them.");
  command->add_option("FILE", options->file, "the experiment (docs/experiments.md)")
      ->type_name("FILE.toml")
      ->required();
  command
      ->add_option("--out", options->out,
                   "output folder; an experiment that is found there goes on")
      ->type_name("DIR")
      ->required();
  command
      ->add_option("--run-seconds-max", options->run_seconds_max,
                   "a run that takes longer is stopped and counts as unfinished")
      ->type_name("S")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--profile", options->profile,
                   "predict from this profile of the job (evermoe profile --job) instead of "
                   "measuring one first")
      ->type_name("FILE.toml");
  command
      ->add_option("--profile-rounds", options->profile_rounds,
                   "rounds of the profile that is measured first; 0: none, and no predictions")
      ->type_name("N")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object instead of a table");
  commands[command] = [options] { return experiment(*options); };
}

}  // namespace evermoe
