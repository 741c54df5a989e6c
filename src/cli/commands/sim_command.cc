// evermoe sim: whole jobs with faults in one process, thousands of them, from seeds.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/commands/commands.h"
#include "cli/reports/number_text.h"
#include "cli/reports/schedule_json.h"
#include "env/clock.h"
#include "protection/strategy/strategy_names.h"
#include "sim/control_cost/control_cost.h"
#include "sim/schedule_run.h"

namespace evermoe {
namespace {

struct SimOptions {
  int machines = 0;  // 0: schedules
  ControlCostOptions cost;
  std::string seeds = "1..200";
  int stages = 0;
  int lanes = 0;
  std::string strategy = "sparse";
  ScheduleOptions schedule;
  int failures_max = 5;
  bool json = false;
  bool schedules = false;
  bool playable = false;
  bool transcripts = false;
};

constexpr int kMachinesMax = 4096;

struct SeedRange {
  uint64_t first = 0;
  uint64_t last = 0;
};

absl::StatusOr<SeedRange> parse_seeds(const std::string& text) {
  const std::vector<std::string> ends = absl::StrSplit(text, "..");
  SeedRange range;
  const bool numbers = !ends.empty() && ends.size() <= 2 &&
                       absl::SimpleAtoi(ends.front(), &range.first) &&
                       absl::SimpleAtoi(ends.back(), &range.last);
  if (numbers && range.first <= range.last) return range;
  return InvalidInput(absl::StrCat("sim: --seeds is '", text, "', not A..B with A <= B"));
}

struct SimTotals {
  int64_t runs = 0;
  int64_t failed = 0;
  int64_t recoveries = 0;
  std::map<std::string, int64_t> marks;
  std::vector<uint64_t> failed_seeds;
};

void print_progress(const SimTotals& totals, uint64_t seed, const SeedRange& range) {
  if (::isatty(STDERR_FILENO) != 1 || seed % 50 != 0) return;
  std::fprintf(stderr, "\rseed %llu of %llu, %lld failed", static_cast<unsigned long long>(seed),
               static_cast<unsigned long long>(range.last), static_cast<long long>(totals.failed));
}

void print_totals(const SimOptions& options, const SimTotals& totals, double seconds) {
  if (options.json) {
    nlohmann::json json = {{"runs", totals.runs},
                           {"failed", totals.failed},
                           {"recoveries", totals.recoveries},
                           {"marks", totals.marks},
                           {"failed_seeds", totals.failed_seeds},
                           {"seconds", seconds}};
    std::cout << json.dump() << "\n";
    return;
  }
  std::cout << absl::StrFormat("%d runs, %d failed, %d recoveries, %.1f s\n", totals.runs,
                               totals.failed, totals.recoveries, seconds);
  for (const auto& [mark, count] : totals.marks)
    std::cout << absl::StrFormat("%8d  %s\n", count, mark);
}

absl::StatusOr<ScheduleOptions> schedule_options(const SimOptions& options) {
  if ((options.stages > 0) != (options.lanes > 0))
    return InvalidInput("sim: --stages and --lanes go together");
  ScheduleOptions schedule = options.playable ? playable_schedules() : ScheduleOptions();
  schedule.nodes = options.schedule.nodes;
  schedule.faults_max = options.schedule.faults_max;
  if (options.stages > 0) schedule.lanes.assign(static_cast<size_t>(options.stages), options.lanes);
  if (options.stages * options.lanes == 1)
    return InvalidInput("sim: one worker alone has nobody to keep its copies");
  if (const auto kind = strategy_kind_of(options.strategy)) schedule.strategy = *kind;
  return schedule;
}

absl::StatusOr<int> simulate(const SimOptions& options) {
  ASSIGN_OR_RETURN(const SeedRange range, parse_seeds(options.seeds));
  ASSIGN_OR_RETURN(const ScheduleOptions schedule, schedule_options(options));
  configure_log("sim", LogLevel::kError);  // members tell of every broken connection
  SimTotals totals;
  for (const std::string& path : rare_paths()) totals.marks[path] = 0;  // shown if never reached
  const absl::Duration began = real_clock().now();
  for (uint64_t seed = range.first; seed <= range.last; ++seed) {
    const ScheduleResult result = run_schedule(seed, schedule);
    ++totals.runs;
    totals.recoveries += static_cast<int64_t>(result.outcome.recoveries.size());
    for (const std::string& mark : result.outcome.marks) ++totals.marks[mark];
    if (options.transcripts || !result.passed) std::cout << result.transcript() << "\n";
    if (!result.passed) {
      ++totals.failed;
      totals.failed_seeds.push_back(seed);
      if (totals.failed >= options.failures_max) break;
    }
    print_progress(totals, seed, range);
  }
  print_totals(options, totals, absl::ToDoubleSeconds(real_clock().now() - began));
  return totals.failed == 0 ? 0 : 1;
}

absl::StatusOr<int> show_schedules(const SimOptions& options) {
  ASSIGN_OR_RETURN(const SeedRange range, parse_seeds(options.seeds));
  ASSIGN_OR_RETURN(const ScheduleOptions schedule, schedule_options(options));
  for (uint64_t seed = range.first; seed <= range.last; ++seed)
    std::cout << as_json(seed, random_schedule(seed, schedule)).dump() << "\n";
  return 0;
}

// That one of the roles costs: as much in a job of any size.
struct CostOfRole {
  double messages = 0, bytes = 0, microseconds = 0;
};

CostOfRole cost_of_role(const ControlCost& cost, int roles) {
  return {static_cast<double>(cost.messages()) / roles, static_cast<double>(cost.bytes()) / roles,
          cost.seconds * 1e6 / roles};
}

nlohmann::json to_json(const ControlCost& cost, int roles) {
  const CostOfRole role = cost_of_role(cost, roles);
  nlohmann::json json = {{"what", cost.what},
                         {"messages_in", cost.messages_in},
                         {"messages_out", cost.messages_out},
                         {"bytes_in", cost.bytes_in},
                         {"bytes_out", cost.bytes_out},
                         {"agent_bytes", cost.agent_bytes},
                         {"controller_seconds", cost.seconds},
                         {"messages_per_role", role.messages},
                         {"bytes_per_role", role.bytes},
                         {"controller_microseconds_per_role", role.microseconds},
                         {"messages_per_second", nullptr}};
  if (cost.job_seconds)
    json["messages_per_second"] = static_cast<double>(cost.messages()) / *cost.job_seconds;
  return json;
}

void print_control_cost(const ControlCost& cost, int roles) {
  const CostOfRole role = cost_of_role(cost, roles);
  std::cout << absl::StrFormat("%-24s %12s %8.2f %12s %8.0f %9.3f %8.1f %12s\n", cost.what,
                               with_commas(cost.messages()), role.messages,
                               shown_bytes(cost.bytes()), role.bytes, cost.seconds,
                               role.microseconds, shown_bytes(cost.agent_bytes));
}

void print_rate(const ControlCost& cost) {
  if (!cost.job_seconds) return;
  const auto rate = [&](int64_t messages) {
    return with_commas(static_cast<int64_t>(static_cast<double>(messages) / *cost.job_seconds));
  };
  std::cout << absl::StrFormat("\n%s: %s messages a second heard, %s said\n", cost.what,
                               rate(cost.messages_in), rate(cost.messages_out));
}

int show_control_cost(const SimOptions& options) {
  ControlCostOptions cost = options.cost;
  cost.machines = options.machines;
  const int roles = cost.machines * cost.roles_per_machine;
  const std::vector<ControlCost> costs = measure_control_cost(cost);
  if (options.json) {
    nlohmann::json json = {{"machines", cost.machines}, {"roles", roles}};
    for (const ControlCost& one : costs) json["phases"].push_back(to_json(one, roles));
    std::cout << json.dump() << "\n";
    return 0;
  }
  std::cout << absl::StrFormat("%d machines, %s roles: what the controller hears and says\n\n",
                               cost.machines, with_commas(roles));
  std::cout << absl::StrFormat("%-24s %12s %8s %12s %8s %9s %8s %12s\n", "", "messages", "a role",
                               "bytes", "a role", "seconds", "us/role", "one agent");
  for (const ControlCost& one : costs) print_control_cost(one, roles);
  for (const ControlCost& one : costs) print_rate(one);
  return 0;
}

}  // namespace

void add_sim_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<SimOptions>();
  CLI::App* command = app.add_subcommand("sim",
                                         "Run simulated jobs through random faults, and check that "
                                         "they end with the bits of the undisturbed job.");
  command
      ->add_option("--seeds", options->seeds,
                   "one job for each seed; a seed always gives the same job")
      ->type_name("A..B")
      ->capture_default_str();
  command->add_option("--stages", options->stages, "stages of every job (default: random)")
      ->type_name("N")
      ->check(CLI::Range(1, 16));
  command->add_option("--lanes", options->lanes, "lanes of every stage (default: random)")
      ->type_name("N")
      ->check(CLI::Range(1, 16));
  command->add_option("--nodes", options->schedule.nodes, "nodes of every job (default: random)")
      ->type_name("N")
      ->check(CLI::Range(1, 256));
  command
      ->add_option("--faults-per-run", options->schedule.faults_max,
                   "a job meets 1 to this many faults")
      ->type_name("N")
      ->check(CLI::Range(1, 20))
      ->capture_default_str();
  std::set<std::string> strategies;
  for (const StrategyKind kind : kStrategyKinds) strategies.emplace(to_string(kind));
  command->add_option("--strategy", options->strategy, "how every job is protected")
      ->check(CLI::IsMember(strategies))
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--failures-max", options->failures_max, "stop after this many failed seeds")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_flag("--transcripts", options->transcripts,
                    "print what happened in every job, not only in failed ones");
  command->add_flag("--json", options->json, "print the totals as one JSON object");
  command->add_flag("--playable", options->playable,
                    "only jobs and faults that tests can play with real machines, too");
  command->add_flag("--schedules", options->schedules,
                    "instead: print the job and the faults of each seed, one JSON object a line");
  command
      ->add_option("--machines", options->machines,
                   "instead: what the control plane of one job on so many machines costs")
      ->type_name("N")
      ->check(CLI::Range(2, kMachinesMax));
  command
      ->add_option("--roles-per-machine", options->cost.roles_per_machine,
                   "with --machines: workers on each of them")
      ->type_name("N")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  commands[command] = [options]() -> absl::StatusOr<int> {
    if (options->machines > 0) return show_control_cost(*options);
    return options->schedules ? show_schedules(*options) : simulate(*options);
  };
}

}  // namespace evermoe
