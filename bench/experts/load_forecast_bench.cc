// How well do expert loads forecast themselves, and how much time does the forecast save?
//
// Reads a recorded routing: CSV with a header and rows "iteration,layer,tokens of expert 0,tokens
// of expert 1,...", iterations ascending. Without one it invents 4 layers of 32 experts that wander
// (seed 1). Every `ahead` records each forecaster predicts the mean shares of the next `ahead`
// records; experts are placed by it, as many slots as 16 nodes of 4 have. Prints one JSON object,
// means over layers and forecasts after the first `skip` records:
//
//   error      half the L1 distance between expected and actual shares (0 exact, 1 all tokens
//              elsewhere)
//   slowdown   the busiest node's load over the mean, under the placement made for the forecast
//
//   load_forecast_bench --loads FILE --ahead 20 --skip 50
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "experts/load/load_forecast.h"
#include "experts/migration/rebalance.h"
#include "experts/placement/replica_allocation.h"
#include "experts/placement/replica_placement.h"
#include "parallel/random_testing.h"

namespace evermoe {
namespace {

constexpr int kNodes = 16, kSlots = 4;

using Records = std::vector<std::vector<int64_t>>;  // [time][expert] of one layer

std::map<int64_t, Records> read_loads(const std::string& path) {
  std::map<int64_t, Records> layers;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream row(line);
    int64_t iteration = 0, layer = 0, tokens = 0;
    row >> iteration >> layer;
    std::vector<int64_t> record;
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
        record.push_back(
            static_cast<int64_t>(1e5 * std::exp(value + 0.3 * (random.uniform() - 0.5))));
      }
    }
  }
  return layers;
}

std::vector<double> mean_shares(const Records& records, size_t begin, size_t end) {
  std::vector<double> mean(records[begin].size(), 0);
  for (size_t t = begin; t < end; ++t) {
    const auto sum =
        static_cast<double>(std::accumulate(records[t].begin(), records[t].end(), int64_t{0}));
    const double weight = 1 / (sum * static_cast<double>(end - begin));
    for (size_t e = 0; e < mean.size(); ++e) mean[e] += static_cast<double>(records[t][e]) * weight;
  }
  return mean;
}

struct Judgement {
  double error = 0, slowdown = 0;
  int count = 0;

  void add(const std::vector<double>& expected, const std::vector<double>& actual) {
    std::vector<int64_t> loads;
    for (size_t e = 0; e < actual.size(); ++e) {
      error += std::abs(expected[e] - actual[e]) / 2;
      loads.push_back(std::llround(std::ldexp(expected[e], 30)));
    }
    const auto allocation = allocate_replicas(loads, kNodes, kSlots, 1);
    CHECK(allocation.ok()) << allocation.status();
    const auto placement = place_replicas(allocation->replicas, kNodes, kSlots);
    CHECK(placement.ok()) << placement.status();
    slowdown += expert_slowdown(placement->experts_of, actual);
    ++count;
  }
};

void judge(const Records& records, const LoadForecastOptions& options, size_t ahead, size_t skip,
           Judgement& into) {
  auto forecast = LoadForecast::create(static_cast<int>(records[0].size()), options);
  CHECK(forecast.ok()) << forecast.status();
  for (size_t t = 0; t + ahead < records.size(); ++t) {
    forecast->observe(records[t]);
    if (t >= skip && (t - skip) % ahead == 0) {
      into.add(forecast->shares(static_cast<int>(ahead)),
               mean_shares(records, t + 1, t + 1 + ahead));
    }
  }
}

int run(const std::string& path, size_t ahead, size_t skip) {
  const auto layers = path.empty() ? invented_loads() : read_loads(path);
  CHECK(!layers.empty()) << "no loads in " << path;
  std::map<std::string, Judgement> judgements;
  for (const auto& [layer, records] : layers) {
    judge(records, {.level_gain = 1, .trend_gain = 0}, ahead, skip, judgements["last_record"]);
    judge(records, {.trend_gain = 0}, ahead, skip, judgements["smoothed"]);
    judge(records, {}, ahead, skip, judgements["smoothed_with_trend"]);
    for (size_t t = skip; t + ahead < records.size(); t += ahead) {
      const std::vector<double> actual = mean_shares(records, t + 1, t + 1 + ahead);
      judgements["known"].add(actual, actual);
      const std::vector<double> equal(actual.size(), 1 / static_cast<double>(actual.size()));
      judgements["equal_shares"].add(equal, actual);
    }
  }
  std::printf("{\"layers\": %zu, \"records\": %zu, \"ahead\": %zu, \"skip\": %zu", layers.size(),
              layers.begin()->second.size(), ahead, skip);
  for (const auto& [name, it] : judgements) {
    std::printf(", \"%s\": {\"error\": %.5f, \"slowdown\": %.4f}", name.c_str(),
                it.error / it.count, it.slowdown / it.count);
  }
  std::printf("}\n");
  return 0;
}

}  // namespace
}  // namespace evermoe

int main(int argc, char** argv) {
  CLI::App app("How well expert loads forecast themselves");
  std::string loads;
  size_t ahead = 20, skip = 50;
  app.add_option("--loads", loads, "a recorded routing (CSV); invented loads if absent")
      ->check(CLI::ExistingFile);
  app.add_option("--ahead", ahead, "records that a forecast is for")->check(CLI::PositiveNumber);
  app.add_option("--skip", skip, "records before the first forecast");
  CLI11_PARSE(app, argc, argv);
  return evermoe::run(loads, ahead, skip);
}
