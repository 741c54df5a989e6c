// evermoe plan: the best protection of a job on a cluster, with reasons.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/output_file.h"
#include "cli/planner_arguments.h"
#include "env/files.h"
#include "planner/plan/protection_plan.h"
#include "planner/report/html_report.h"
#include "planner/report/plan_report.h"
#include "planner/report/tier_report.h"

namespace evermoe {
namespace {

constexpr double kGigabyte = 1e9;

struct PlanOptions {
  PlannerArguments arguments;
  PlanBudget budget;
  double host_memory_gb = 0;
  bool rigid = false;
  bool tiers = false;
  std::string report;
  bool json = false;
  bool toml = false;
};

absl::StatusOr<int> plan(const PlanOptions& options) {
  if (options.json && options.toml)
    return InvalidInput("plan: found --json and --toml, allowed: one of them");
  ASSIGN_OR_RETURN(const PlannerInput input, options.arguments.load());
  PlanBudget budget = options.budget;
  budget.host_bytes_per_gpu = options.host_memory_gb * kGigabyte;
  budget.elastic = !options.rigid;
  if (!options.report.empty())
    RETURN_IF_ERROR(check_output_file(real_files(), "--report", options.report));
  ASSIGN_OR_RETURN(const ProtectionPlan plan,
                   plan_protection({input.job.model, input.cluster, budget}));
  if (!options.report.empty())
    RETURN_IF_ERROR(replace_file(real_files(), options.report, to_html(report_page(plan))));
  std::cout << (options.json ? to_json(plan) : options.toml ? to_toml(plan) : to_text(plan));
  if (options.tiers && !options.json && !options.toml) std::cout << tiers_text(plan);
  return 0;
}

void add_budget(CLI::App& command, PlanOptions& options) {
  PlanBudget& budget = options.budget;
  command.add_option("--host-memory-gb", options.host_memory_gb,
                     "host memory per GPU for protection (default: half of the node's)");
  command
      .add_option("--stall-share", budget.stall_share_max,
                  "share by which protection may lengthen a mean step at most")
      ->capture_default_str();
  command
      .add_option(
          "--lost-share", budget.lost_share_max,
          "share of the run's tokens that may be lost; above 0, LOSSY protection is considered")
      ->capture_default_str();
  command.add_option("--copies", budget.copies, "copies of each snapshot at peers")
      ->capture_default_str();
  command.add_option("--window", budget.window, "steps of a sparse window, 0 to choose")
      ->capture_default_str();
  command
      .add_option("--spares-max", budget.spares_max,
                  "spare nodes at most; -1: as many as --spares-probability asks for")
      ->capture_default_str();
  command
      .add_option("--spares-probability", budget.spares_probability,
                  "probability that the spares make up for all failed nodes")
      ->capture_default_str();
  command.add_flag("--rigid", options.rigid, "never train on fewer nodes");
  command.add_option("--runs", budget.simulated_runs, "simulated runs per candidate")
      ->capture_default_str();
}

}  // namespace

void add_plan_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan",
                                         "Choose the best protection for a job on a cluster that "
                                         "fails, and say what it costs and why the others lose.");
  options->arguments.add(*command);
  add_budget(*command, *options);
  command->add_flag("--tiers", options->tiers,
                    "also say how often to save the whole state to peers' memory and to durable "
                    "storage");
  command->add_option("--report", options->report, "write a page that compares all candidates")
      ->type_name("FILE.html");
  command->add_flag("--json", options->json, "print one JSON object");
  command->add_flag("--toml", options->toml,
                    "print the best plan that runs today as tables of a job's configuration");
  commands[command] = [options] { return plan(*options); };
}

}  // namespace evermoe
