// Makes a file of data/results/ from what `evermoe experiment` printed, on stdout.
//
//   build/keep_result REPORT.json --machine TEXT --command TEXT > data/results/NAME.json
#include <CLI/CLI.hpp>
#include <iostream>

#include "base/error.h"
#include "env/files.h"
#include "papers/runtime_result.h"

int main(int argc, char** argv) {
  std::string report, machine, command;
  CLI::App app("Keeps the result of an experiment for docs/results.md.");
  app.add_option("report", report, "report.json of an experiment")->required();
  app.add_option("--machine", machine, "what it ran on, in words")->required();
  app.add_option("--command", command, "how it was run")->required();
  CLI11_PARSE(app, argc, argv);
  const auto kept = [&]() -> absl::StatusOr<evermoe::RuntimeResult> {
    const auto text =
        evermoe::read_file(evermoe::real_files(), report, evermoe::kRuntimeResultBytesMax);
    if (!text.ok()) return evermoe::InvalidInput(std::string(text.status().message()));
    return evermoe::result_of_report(*text, report);
  }();
  if (!kept.ok()) {
    std::cerr << "keep_result: " << kept.status().message() << "\n";
    return evermoe::exit_code(kept.status());
  }
  evermoe::RuntimeResult result = *kept;
  result.machine = machine;
  result.command = command;
  std::cout << evermoe::to_json(result);
}
