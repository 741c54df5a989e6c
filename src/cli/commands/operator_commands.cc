// evermoe status, drain and stop: what an operator asks of a job that runs elsewhere.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/exit_codes.h"
#include "cli/commands/commands.h"
#include "cli/operators/operator_line.h"
#include "cli/reports/status_report.h"

namespace evermoe {
namespace {

constexpr absl::Duration kEvery = absl::Seconds(1);
// Of a controller that has promised the end: its machine may be busy, or another one follows it.
constexpr absl::Duration kSilenceMax = absl::Minutes(1);

struct OperatorOptions {
  std::string where;
  std::string keys;
  bool json = false;
  bool watch = false;
  bool no_wait = false;
};

absl::StatusOr<std::unique_ptr<OperatorLine>> line_to(const OperatorOptions& options) {
  ASSIGN_OR_RETURN(OperatorTarget target, find_job(options.where, options.keys));
  return std::make_unique<OperatorLine>(std::move(target), real_clock());
}

std::string end_text(const EndJob& end) {
  if (!end.ok) return absl::StrCat("the job has failed: ", end.reason);
  return end.is_drained ? "the job is drained: all have saved and ended" : "the job has finished";
}

void show(const OperatorOptions& options, const JobStatus& status, bool is_live) {
  if (is_live) std::cout << "\x1b[H\x1b[J";
  std::cout << (options.json ? to_json(status) + "\n" : to_text(status));
  if (options.watch && !options.json && !is_live) std::cout << "\n";
  std::cout.flush();
}

absl::StatusOr<int> show_status(const OperatorOptions& options) {
  ASSIGN_OR_RETURN(const auto line, line_to(options));
  const bool is_live = options.watch && !options.json && ::isatty(STDOUT_FILENO) == 1;
  while (true) {
    ASSIGN_OR_RETURN(const OperatorLine::Answer answer, line->ask());
    if (answer.status) show(options, *answer.status, is_live);
    if (answer.end) (options.json ? std::cerr : std::cout) << end_text(*answer.end) << "\n";
    if (answer.end || !options.watch) return kExitOk;
    line->wait(kEvery);
  }
}

// Progress goes to standard error, as a line a second that says something new.
absl::StatusOr<EndJob> wait_for_end(OperatorLine& line) {
  std::string told;
  absl::Duration heard = real_clock().now();
  while (true) {
    const absl::StatusOr<OperatorLine::Answer> answer = line.ask();
    if (!answer.ok() && real_clock().now() < heard + kSilenceMax) continue;
    RETURN_IF_ERROR(answer.status());
    heard = real_clock().now();
    if (answer->end) return *answer->end;
    const std::string now = short_text(*answer->status);
    if (std::exchange(told, now) != now) std::cerr << now << "\n";
    line.wait(kEvery);
  }
}

absl::StatusOr<int> drain(const OperatorOptions& options) {
  ASSIGN_OR_RETURN(const auto line, line_to(options));
  ASSIGN_OR_RETURN(OperatorLine::Answer answer, line->ask());
  while (!answer.end && !answer.status->is_draining) {
    line->send(Drain{});
    ASSIGN_OR_RETURN(answer, line->ask());
  }
  if (!answer.end) {
    if (options.no_wait) {
      std::cout << "the job drains: the workers finish their step, save and end\n";
      return kExitOk;
    }
    ASSIGN_OR_RETURN(answer.end, wait_for_end(*line));
  }
  if (!answer.end->ok) return Internal(end_text(*answer.end));
  std::cout << end_text(*answer.end) << "\n";
  return kExitOk;
}

absl::StatusOr<int> stop(const OperatorOptions& options) {
  ASSIGN_OR_RETURN(const auto line, line_to(options));
  ASSIGN_OR_RETURN(OperatorLine::Answer answer, line->ask());
  if (!answer.end) {
    while (!answer.end) {
      line->send(EndJob{.ok = false, .reason = "an operator has stopped it (evermoe stop)"});
      ASSIGN_OR_RETURN(answer, line->ask());
    }
    std::cout
        << "the job is stopped and has saved nothing: it goes on from its newest checkpoint\n";
  } else {
    std::cout << end_text(*answer.end) << "\n";
  }
  return kExitOk;
}

CLI::App* add_command(CLI::App& app, CommandTable& commands, const char* name, const char* what,
                      const std::shared_ptr<OperatorOptions>& options,
                      absl::StatusOr<int> (*run)(const OperatorOptions&)) {
  CLI::App* command = app.add_subcommand(name, what);
  add_job_options(*command, options->where, options->keys);
  commands[command] = [options, run] { return run(*options); };
  return command;
}

}  // namespace

void add_operator_commands(CLI::App& app, CommandTable& commands) {
  const auto status = std::make_shared<OperatorOptions>();
  CLI::App* command = add_command(
      app, commands, "status",
      "Show the state of a running job: machines, roles, view, which losses it would survive.",
      status, show_status);
  command->add_flag("--json", status->json, "one JSON object (docs/cluster.md)");
  command->add_flag("--watch", status->watch, "again every second until the job ends");
  const auto drained = std::make_shared<OperatorOptions>();
  command = add_command(app, commands, "drain",
                        "End a running job so that it can go on: all finish the step, save, end.",
                        drained, drain);
  command->add_flag("--no-wait", drained->no_wait, "do not wait until the job has ended");
  add_command(app, commands, "stop", "End a running job at once; nothing is saved.",
              std::make_shared<OperatorOptions>(), stop);
}

}  // namespace evermoe
