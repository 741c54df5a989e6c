#include "experts/load/load_forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parallel/random_testing.h"

namespace evermoe {
namespace {

LoadForecast forecast(int experts, const LoadForecastOptions& options = {}) {
  auto made = LoadForecast::create(experts, options);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

constexpr LoadForecastOptions kLastRecord = {.level_gain = 1, .trend_gain = 0};
constexpr LoadForecastOptions kNoTrend = {.trend_gain = 0};

using Records = std::vector<std::vector<int64_t>>;

std::vector<double> shares_of(const std::vector<int64_t>& record) {
  const double sum = static_cast<double>(std::accumulate(record.begin(), record.end(), int64_t{0}));
  std::vector<double> shares;
  for (const int64_t load : record) shares.push_back(static_cast<double>(load) / sum);
  return shares;
}

// Mean half L1 distance between the forecast over the next `ahead` records and what they are.
double mean_error(const Records& records, const LoadForecastOptions& options, int ahead, int from) {
  LoadForecast it = forecast(static_cast<int>(records[0].size()), options);
  double sum = 0;
  int count = 0;
  for (int t = 0; t + ahead < static_cast<int>(records.size()); ++t) {
    it.observe(records[t]);
    if (t < from) continue;
    const std::vector<double> expected = it.shares(ahead);
    std::vector<double> actual(expected.size(), 0);
    for (int n = 1; n <= ahead; ++n) {
      const std::vector<double> shares = shares_of(records[t + n]);
      for (size_t e = 0; e < actual.size(); ++e) actual[e] += shares[e] / ahead;
    }
    for (size_t e = 0; e < actual.size(); ++e) sum += std::abs(expected[e] - actual[e]) / 2;
    ++count;
  }
  return sum / count;
}

// 24 experts whose popularity is a random walk in the logarithm, seen through the noise of single
// records: what recorded routings look like once training has settled.
Records wandering_loads(uint64_t seed, int length, double step, double noise) {
  TestRandom random(seed);
  std::vector<double> log_popularity(24, 0);
  for (double& value : log_popularity) value = 2 * random.uniform();
  Records records;
  for (int t = 0; t < length; ++t) {
    auto& record = records.emplace_back();
    for (double& value : log_popularity) {
      value += step * (random.uniform() - 0.5);
      record.push_back(
          static_cast<int64_t>(1e6 * std::exp(value + noise * (random.uniform() - 0.5))));
    }
  }
  return records;
}

TEST(LoadForecastTest, KnowsNothingBeforeTheFirstRecord) {
  LoadForecast it = forecast(4);
  EXPECT_EQ(it.shares(3), std::vector<double>(4, 0.25));
  EXPECT_EQ(it.error(), 1);
  it.observe(std::vector<int64_t>{0, 0, 0, 0});
  EXPECT_EQ(it.records(), 0);
  it.observe(std::vector<int64_t>{0, 1, 3, 0});
  EXPECT_EQ(it.records(), 1);
  EXPECT_EQ(it.shares(1), (std::vector<double>{0, 0.25, 0.75, 0}));
  EXPECT_EQ(it.loads(1), (std::vector<int64_t>{0, 1 << 28, 3 << 28, 0}));
}

TEST(LoadForecastTest, ConstantLoadsAreForecastExactly) {
  LoadForecast it = forecast(3);
  for (int t = 0; t < 50; ++t)
    it.observe(std::vector<int64_t>{10 + t % 2 * 10, 20 + t % 2 * 20, 70 + t % 2 * 70});
  for (const int ahead : {1, 20}) {
    const std::vector<double> shares = it.shares(ahead);
    EXPECT_NEAR(shares[0], 0.1, 1e-12);
    EXPECT_NEAR(shares[2], 0.7, 1e-12);
  }
  EXPECT_NEAR(it.error(), 0, 1e-12);
}

TEST(LoadForecastTest, OneRecordByHand) {
  LoadForecast it = forecast(2, {.level_gain = 0.5, .trend_gain = 0.5, .trend_damping = 0.5});
  it.observe(std::vector<int64_t>{1, 1});
  it.observe(std::vector<int64_t>{3, 1});  // level 0.625, trend 0.0625
  EXPECT_DOUBLE_EQ(it.error(), 0.25);
  EXPECT_DOUBLE_EQ(it.shares(1)[0], 0.625 + 0.5 * 0.0625);
  EXPECT_DOUBLE_EQ(it.shares(2)[0], 0.625 + (0.5 + 0.75) / 2 * 0.0625);
  it.observe(std::vector<int64_t>{
      1, 0});  // level 0.5 + 0.5 * (0.625 + 0.03125), trend 0.5 * 0.203125 + 0.25 * 0.0625
  EXPECT_DOUBLE_EQ(it.shares(1)[0], 0.828125 + 0.5 * (0.1015625 + 0.015625));
}

TEST(LoadForecastTest, SharesAreAlwaysShares) {
  TestRandom random(71);
  for (int trial = 0; trial < 300; ++trial) {
    const int experts = random.integer(1, 8);
    LoadForecast it = forecast(experts, {.level_gain = 0.05 + 0.95 * random.uniform(),
                                         .trend_gain = random.uniform(),
                                         .trend_damping = random.uniform()});
    for (int t = 0; t < 30; ++t) {
      std::vector<int64_t> record;
      for (int e = 0; e < experts; ++e)
        record.push_back(random.integer(0, 2) == 0 ? 0 : random.integer(0, 1000));
      it.observe(record);
      const std::vector<double> shares = it.shares(random.integer(1, 30));
      EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-12);
      EXPECT_GE(*std::min_element(shares.begin(), shares.end()), 0);
      EXPECT_GE(it.error(), 0);
      EXPECT_LE(it.error(), 1 + 1e-12);
    }
  }
}

TEST(LoadForecastTest, SmoothingBeatsTheLastRecordUnderNoise) {
  const Records records = wandering_loads(72, 400, 0.02, 0.2);
  const double smoothed = mean_error(records, {}, 20, 50),
               last = mean_error(records, kLastRecord, 20, 50);
  EXPECT_LT(smoothed, 0.75 * last);
}

TEST(LoadForecastTest, TheTrendHelpsWherePopularityDriftsSteadily) {
  Records records;
  for (int t = 0; t < 200; ++t) records.push_back({1000 + 10 * t, 3000 - 10 * t, 2000});
  LoadForecastOptions trending = {.trend_gain = 0.2, .trend_damping = 1};
  EXPECT_LT(mean_error(records, trending, 20, 50), 0.2 * mean_error(records, kNoTrend, 20, 50));
  EXPECT_LT(mean_error(records, {}, 20, 50), mean_error(records, kNoTrend, 20, 50));
}

TEST(LoadForecastTest, RefusesImpossibleOptions) {
  EXPECT_EQ(LoadForecast::create(0).status().message(), "there are no experts to forecast");
  EXPECT_EQ(LoadForecast::create(2, {.level_gain = 0}).status().message(),
            "load forecast: gains 0 and 0.02, damping 0.9 must be between 0 and 1");
  EXPECT_FALSE(LoadForecast::create(2, {.trend_gain = 1.5}).ok());
  EXPECT_FALSE(LoadForecast::create(2, {.trend_damping = std::nan("")}).ok());
}

}  // namespace
}  // namespace evermoe
