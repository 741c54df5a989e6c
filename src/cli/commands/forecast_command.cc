// evermoe forecast: what a configured job will do on a cluster, for one setting or many, or at
// every scale.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/output_file.h"
#include "cli/planner_arguments.h"
#include "env/files.h"
#include "planner/plan/sweep.h"
#include "planner/plan/what_if.h"
#include "planner/report/html_report.h"
#include "planner/simulate/run_forecast.h"

namespace evermoe {
namespace {

struct ForecastArguments {
  PlannerArguments arguments;
  ForecastOptions options;
  std::string replacement = "standby";
  std::vector<std::string> sweeps;
  std::string scale;
  std::string report;
  bool json = false;
};

absl::StatusOr<NodeReplacement> parse_replacement(const std::string& name) {
  for (const NodeReplacement replacement :
       {NodeReplacement::kRestart, NodeReplacement::kStandby, NodeReplacement::kElastic}) {
    if (name == to_string(replacement)) return replacement;
  }
  return InvalidInput(
      absl::StrCat("--replacement: found \"", name, "\", allowed: restart, standby, elastic"));
}

absl::StatusOr<std::vector<int>> parse_scale(const std::string& text, int gpus_per_node) {
  if (text == "usual") return usual_scales(gpus_per_node);
  std::vector<int> gpus;
  for (const auto part : absl::StrSplit(text, ',')) {
    int count = 0;
    if (!absl::SimpleAtoi(part, &count) || count < 1 || count > (1 << 23)) {
      return InvalidInput(absl::StrCat("--scale: found \"", std::string(part),
                                       "\", allowed: usual, or numbers of GPUs from 1 to ",
                                       1 << 23));
    }
    gpus.push_back(count);
  }
  return gpus;
}

// Prints it, and writes the page if one is asked for.
template <typename Result>
absl::StatusOr<int> show(const ForecastArguments& arguments, const std::string& title,
                         const Result& result, const std::string& text, const std::string& json) {
  if (!arguments.report.empty()) {
    RETURN_IF_ERROR(
        replace_file(real_files(), arguments.report, to_html(report_page(title, result))));
  }
  std::cout << (arguments.json ? json : text);
  return 0;
}

absl::StatusOr<int> forecast_scales(const ForecastArguments& arguments) {
  if (!arguments.sweeps.empty())
    return InvalidInput("forecast: found --scale and --sweep, allowed: one of them");
  ASSIGN_OR_RETURN(const PlannerInput input, arguments.arguments.load());
  if (input.trace)
    return InvalidInput("forecast: found --scale with a failure trace, allowed: with a law");
  ASSIGN_OR_RETURN(const std::vector<int> gpus,
                   parse_scale(arguments.scale, input.cluster.gpus_per_node));
  PlanInput plan{input.job.model, input.cluster, {}};
  plan.budget.simulated_runs = arguments.options.simulated_runs;
  ASSIGN_OR_RETURN(const std::vector<ScaleRow> rows, what_if_scale(plan, gpus));
  const std::span<const ScaleRow> view(rows);
  return show(arguments, absl::StrCat("What if: ", input.job.model.name, " at every scale"), view,
              to_text(view), to_json(view));
}

absl::StatusOr<RunForecast> forecast_at(const ForecastArguments& arguments,
                                        const std::vector<std::string>& settings) {
  ASSIGN_OR_RETURN(const PlannerInput input, arguments.arguments.load(settings));
  ForecastOptions options = arguments.options;
  ASSIGN_OR_RETURN(options.replacement, parse_replacement(arguments.replacement));
  options.trace = input.trace ? &*input.trace : nullptr;
  return forecast_run(input.job.model, input.job.protection, input.job.checkpoint, input.cluster,
                      options);
}

absl::StatusOr<int> forecast(const ForecastArguments& arguments) {
  if (!arguments.report.empty())
    RETURN_IF_ERROR(check_output_file(real_files(), "--report", arguments.report));
  if (!arguments.scale.empty()) return forecast_scales(arguments);
  const std::string title = absl::StrCat("Forecast: ", arguments.arguments.names.model, " on ",
                                         arguments.arguments.names.cluster);
  if (arguments.sweeps.empty()) {
    ASSIGN_OR_RETURN(RunForecast run, forecast_at(arguments, {}));
    const std::string text = to_text(run), json = to_json(run);
    return show(arguments, title, Sweep{{}, {{.forecast = std::move(run)}}}, text, json);
  }
  std::vector<SweepAxis> axes;
  for (const std::string& sweep : arguments.sweeps) {
    ASSIGN_OR_RETURN(SweepAxis axis, parse_sweep(sweep));
    axes.push_back(std::move(axis));
  }
  ASSIGN_OR_RETURN(const Sweep result, sweep(std::move(axes), [&](const auto& settings) {
                     return forecast_at(arguments, settings);
                   }));
  return show(arguments, title, result, to_text(result), to_json(result));
}

}  // namespace

void add_forecast_command(CLI::App& app, CommandTable& commands) {
  const auto arguments = std::make_shared<ForecastArguments>();
  CLI::App* command = app.add_subcommand(
      "forecast",
      "Say what a configured job will do on a cluster that fails: time trained, lost and waited.");
  arguments->arguments.add(*command);
  command
      ->add_option(
          "--sweep", arguments->sweeps,
          "repeat for KEY=A,B,... or KEY=A..B (doubling); given twice, for every combination")
      ->allow_extra_args(false);
  command->add_option("--scale", arguments->scale,
                      "numbers of GPUs, or usual (8 to 131,072): make the best plan at each size");
  command
      ->add_option("--replacement", arguments->replacement,
                   "what replaces failed nodes: restart, standby or elastic")
      ->capture_default_str();
  command->add_option("--runs", arguments->options.simulated_runs, "simulated runs")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--seed", arguments->options.first_seed, "seed of the first run")
      ->capture_default_str();
  command->add_option("--report", arguments->report, "write a page with figures, plots and tables")
      ->type_name("FILE.html");
  command->add_flag("--json", arguments->json,
                    "print one JSON object, or an array for --sweep and --scale");
  commands[command] = [arguments] { return forecast(*arguments); };
}

}  // namespace evermoe
