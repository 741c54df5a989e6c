// evermoe plan: the best protection of a job on a cluster, with reasons.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/planner_arguments.h"
#include "forecast/plan_report.h"
#include "forecast/protection_plan.h"

namespace evermoe {
namespace {

constexpr double kGigabyte = 1e9;

struct PlanOptions {
  PlannerArguments arguments;
  PlanBudget budget;
  double host_memory_gb = 0;
  bool rigid = false;
  int64_t sequences = 0;
  bool json = false;
  bool toml = false;
};

absl::StatusOr<int> plan(const PlanOptions& options) {
  if (options.json && options.toml) return InvalidInput("plan: found --json and --toml, allowed: one of them");
  ASSIGN_OR_RETURN(PlannerInput input, options.arguments.load());
  if (options.sequences > 0) {
    if (input.job.model.layout) return InvalidInput("plan: found --sequences for a configured batch, allowed: with a preset");
    input.job.model.sequences = options.sequences;
  }
  PlanBudget budget = options.budget;
  budget.host_bytes_per_gpu = options.host_memory_gb * kGigabyte;
  budget.elastic = !options.rigid;
  ASSIGN_OR_RETURN(const ProtectionPlan plan, plan_protection({input.job.model, input.cluster, budget}));
  std::cout << (options.json ? to_json(plan) : options.toml ? to_toml(plan) : to_text(plan));
  return 0;
}

void add_budget(CLI::App& command, PlanOptions& options) {
  PlanBudget& budget = options.budget;
  command.add_option("--host-memory-gb", options.host_memory_gb, "host memory for protection, of each GPU (default: half of the node's)");
  command.add_option("--stall-share", budget.stall_share_max, "by which protection may lengthen a mean step")->capture_default_str();
  command.add_option("--lost-share", budget.lost_share_max, "of the run's tokens that may be lost (LOSSY protection)")->capture_default_str();
  command.add_option("--copies", budget.copies, "wanted of each snapshot")->capture_default_str();
  command.add_option("--window", budget.window, "steps of a sparse window, 0: chosen")->capture_default_str();
  command.add_option("--spares-max", budget.spares_max, "-1: as many as --spares-probability asks for")->capture_default_str();
  command.add_option("--spares-probability", budget.spares_probability, "that spares suffice until repair")->capture_default_str();
  command.add_flag("--rigid", options.rigid, "never train on fewer nodes");
  command.add_option("--runs", budget.simulated_runs, "simulated, of each candidate")->capture_default_str();
}

}  // namespace

void add_plan_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "Say how to protect a job on a cluster that fails, and what that will cost");
  options->arguments.add(*command);
  add_budget(*command, *options);
  command->add_option("--sequences", options->sequences, "of one step, with a preset (default: about 8192 tokens for each GPU)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32));
  command->add_flag("--json", options->json, "print one JSON object");
  command->add_flag("--toml", options->toml, "print the tables for a job's configuration");
  commands[command] = [options] { return plan(*options); };
}

}  // namespace evermoe
