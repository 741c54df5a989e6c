// What does a change of one process cost, beside connecting the whole job anew?
//
//   change_bench [--transport unix|ucx|simulated] [--ranks 8 16 ...] [--lanes 4] [--rounds 9]
//
// The layout: stages of `lanes` ranks (two stages at least), whose traffic is that of job_traffic.h.
// A round measures four things one after the other, from the moment at which all processes get a
// new table of peers until the last one has finished the step after it:
//   step     nothing has changed, and all are connected
//   change   another process plays one rank, a process that was there before
//   prepared likewise, and it has connected with the others beside the step before
//   rebuild  everybody joins anew, and all connections are made again
// and how many connections that made. With unix and ucx, real processes; simulated, any number of
// ranks: there counts are exact, and rank 0 is replaced in the first round and a drawn one in each
// later one, but only the way of the messages takes time, nothing that a processor does.
//
// What to expect: up to 32 ranks all are connected with all, because the verdict is exchanged
// directly: n - 1 connections against n (n - 1) / 2, a ratio of n / 2. Beyond, a rank has its stage,
// two neighbours, four copies (two of them with the neighbours) and its branches of the tree,
// log2(n) at most: 7 to 15 against 3.6 n. Two processes take 0.15 ms to connect over AF_UNIX and
// 3 ms over UCX. Many at once share two cores, with 60 and 500 us for each connection.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "process_changes.h"
#include "simulated_changes.h"

namespace evermoe {
namespace {

struct Options {
  std::string transport = "unix";
  std::vector<int> ranks = {8};
  int lanes = 4;
  int rounds = 9;

  JobShape shape(int of_ranks) const {
    const int width = std::min(lanes, of_ranks / 2);
    return {.stages = of_ranks / width, .lanes = width};
  }
};

std::vector<ChangeRound> measure(const Options& options, const JobShape& shape) {
  if (options.transport == "simulated") return SimulatedChanges(shape, options.rounds, 1).run();
  return measure_process_changes({shape, options.transport, options.rounds});
}

nlohmann::ordered_json report_of(const Options& options, int ranks) {
  const JobShape shape = options.shape(ranks);
  nlohmann::ordered_json report = {
      {"ranks", ranks}, {"stages", shape.stages}, {"lanes", shape.lanes}};
  report.update(report_of(measure(options, shape)));
  return report;
}

void run(const Options& options) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const int ranks : options.ranks) results.push_back(report_of(options, ranks));
  const nlohmann::ordered_json report = {{"library", "evermoe"},
                                         {"transport", options.transport},
                                         {"rounds", options.rounds},
                                         {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
                                         {"columns", {"median", "least", "greatest"}},
                                         {"results", results}};
  std::puts(report.dump().c_str());
}

// Ok, or why they cannot be measured.
std::string refusal(const Options& options) {
  constexpr int kProcessesMax = 128;
  for (const int ranks : options.ranks) {
    if (ranks % options.shape(ranks).lanes != 0)
      return absl::StrCat(ranks, " ranks are no whole stages");
    if (options.transport != "simulated" && ranks > kProcessesMax)
      return absl::StrCat("more than ", kProcessesMax, " processes are too many for a machine");
  }
  return "";
}

}  // namespace
}  // namespace evermoe

int main(int argc, char** argv) {
  evermoe::enter_ucx_environment(argv);
  evermoe::Options options;
  CLI::App app("Counts and times what a change of one process costs");
  app.add_option("--transport", options.transport)
      ->check(CLI::IsMember({"unix", "ucx", "simulated"}));
  app.add_option("--ranks", options.ranks)->check(CLI::Range(2, evermoe::kJobRanksMax));
  app.add_option("--lanes", options.lanes)->check(CLI::Range(1, 64));
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  if (const std::string why = evermoe::refusal(options); !why.empty()) {
    std::fprintf(stderr, "%s\n", why.c_str());
    return 2;
  }
  evermoe::run(options);
}
