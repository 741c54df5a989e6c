// How long should loads of experts be remembered, and how even are lanes until the next decision?
//
// Reads a recorded routing: CSV with a header and rows "iteration,layer,tokens of expert 0,tokens
// of expert 1,...", iterations ascending. Without one it invents 4 layers of 32 experts that wander
// (seed 1). Decides as a job does (experts/migration/expert_balance.h), a record taken for a step.
// Prints one JSON object: for each number of records over which older ones come to weigh less and
// less the mean over layers and records, after the first `skip`, of
//
//   busiest   the busiest lane's load over the mean, of what the gates chose in that record
//   moved     experts that a lane came to lack in a decision
//
// and `static`: the busiest lane with experts where they are at the beginning.
//
//   load_memory_bench --loads FILE --lanes 8 --slots 6
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "experts/migration/expert_balance.h"
#include "experts/placement/load_sharing.h"
#include "parallel/random_testing.h"

namespace evermoe {
namespace {

using Records = std::vector<std::vector<double>>;  // [time][expert] of one layer

std::map<int64_t, Records> read_loads(const std::string& path) {
  std::map<int64_t, Records> layers;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream row(line);
    int64_t iteration = 0, layer = 0;
    double tokens = 0;
    row >> iteration >> layer;
    std::vector<double> record;
    while (row >> tokens) record.push_back(tokens);
    layers[layer].push_back(std::move(record));
  }
  return layers;
}

std::map<int64_t, Records> invented_loads() {
  std::map<int64_t, Records> layers;
  TestRandom random(1);
  for (int layer = 0; layer < 4; ++layer) {
    std::vector<double> popularity(32);
    for (double& value : popularity) value = 2 * random.uniform();
    for (int t = 0; t < 200; ++t) {
      auto& record = layers[layer].emplace_back();
      for (double& value : popularity) {
        value += 0.05 * (random.uniform() - 0.5);
        record.push_back(std::floor(1e5 * std::exp(value + 0.3 * (random.uniform() - 0.5))));
      }
    }
  }
  return layers;
}

struct Study {
  int lanes = 8, slots = 6, every = 20;
  size_t skip = 60;
};

struct Judgement {
  double busiest = 0, moved = 0;
  int records = 0, decisions = 0;
};

int64_t lacking(const LayerBalance& before, const LayerBalance& after) {
  int64_t lacking = 0;
  for (size_t lane = 0; lane < after.experts_of.size(); ++lane) {
    for (const int expert : after.experts_of[lane])
      lacking += std::ranges::binary_search(before.experts_of[lane], expert) ? 0 : 1;
  }
  return lacking;
}

void judge(const Records& records, const Study& study, int64_t memory, Judgement& into) {
  const BalanceOptions options{.slots = study.slots,
                               .every_steps = study.every,
                               .memory_steps = std::max<int64_t>(1, memory)};
  ExpertBalance balance = initial_balance(1, std::ssize(records[0]));
  settle(balance, {&study.lanes, 1}, options);
  for (size_t t = 0; t < records.size(); ++t) {
    if (t >= study.skip) {
      into.busiest += slowdown_of(std::vector<int64_t>(records[t].begin(), records[t].end()),
                                  balance[0].experts_of);
      ++into.records;
    }
    if (memory == 0) continue;
    count_step(balance, records[t], options);
    if (!is_balance_due(Step(static_cast<int64_t>(t) + 1), options)) continue;
    ExpertBalance next = rebalanced(balance, options).balance;
    if (t >= study.skip) {
      into.moved += static_cast<double>(lacking(balance[0], next[0]));
      ++into.decisions;
    }
    balance = std::move(next);
  }
}

int run(const std::string& path, const Study& study) {
  const auto layers = path.empty() ? invented_loads() : read_loads(path);
  CHECK(!layers.empty()) << "no loads in " << path;
  std::printf("{\"layers\": %zu, \"records\": %zu, \"lanes\": %d, \"slots\": %d, \"every\": %d",
              layers.size(), layers.begin()->second.size(), study.lanes, study.slots, study.every);
  for (const int64_t memory : {0, 1, 2, 3, 5, 10, 20, 40}) {
    Judgement it;
    for (const auto& [layer, records] : layers) judge(records, study, memory, it);
    std::printf(", \"%s\": {\"busiest\": %.4f, \"moved\": %.2f}",
                memory == 0 ? "static" : std::to_string(memory).c_str(), it.busiest / it.records,
                it.decisions == 0 ? 0 : it.moved / it.decisions);
  }
  std::printf("}\n");
  return 0;
}

}  // namespace
}  // namespace evermoe

int main(int argc, char** argv) {
  CLI::App app("How long loads of experts should be remembered");
  std::string loads;
  evermoe::Study study;
  app.add_option("--loads", loads, "a recorded routing (CSV); invented loads if absent")
      ->check(CLI::ExistingFile);
  app.add_option("--lanes", study.lanes, "of the stage")->check(CLI::PositiveNumber);
  app.add_option("--slots", study.slots, "experts that a lane holds at most")
      ->check(CLI::PositiveNumber);
  app.add_option("--every", study.every, "records between two decisions")
      ->check(CLI::PositiveNumber);
  app.add_option("--skip", study.skip, "records that are not judged");
  CLI11_PARSE(app, argc, argv);
  return evermoe::run(loads, study);
}
