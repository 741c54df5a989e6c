#include "experts/load/synthetic_routing.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace evermoe {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;

double skew_of(const std::vector<double>& popularity) {
  const auto experts = static_cast<double>(popularity.size());
  double index = 0;
  for (const double share : popularity) index += share * share;
  return (index - 1 / experts) / (1 - 1 / experts);
}

std::vector<int64_t> choices(const SyntheticRouting& routing, Step step, MicroBatch micro_batch,
                             int64_t tokens) {
  return synthetic_choices(routing, /*layer=*/0, step, micro_batch, tokens,
                           synthetic_popularity(routing, 0, step));
}

// MoEtion, appendix on skew: "E[HHI] = (alpha + 1) / (alpha E + 1)", so E[S] = 1 / (alpha E + 1).
TEST(SyntheticRouting, TheMeanSkewOfManyLayersIsTheOneThatWasAskedFor) {
  for (const double skew : {0.1, 0.25, 0.5, 0.75, 0.99}) {
    const SyntheticRouting routing{.seed = 3, .experts = 16, .skew = skew};
    double sum = 0;
    constexpr int kLayers = 4000;
    for (int layer = 0; layer < kLayers; ++layer)
      sum += skew_of(synthetic_popularity(routing, layer, Step(0)));
    EXPECT_THAT(sum / kLayers, DoubleNear(skew, 0.015));
  }
}

TEST(SyntheticRouting, WithoutSkewAllExpertsAreEquallyPopular) {
  EXPECT_THAT(synthetic_popularity({.experts = 8}, 2, Step(7)), Each(0.125));
}

TEST(SyntheticRouting, PopularityDriftsFromEpochToEpochAndDiffersByLayerAndSeed) {
  const SyntheticRouting routing{.seed = 1, .experts = 8, .skew = 0.5, .drift_steps = 10};
  const auto first = synthetic_popularity(routing, 0, Step(0));
  EXPECT_EQ(synthetic_popularity(routing, 0, Step(9)), first);
  EXPECT_EQ(synthetic_popularity(routing, 0, Step(-1)), first) << "of an evaluation";
  EXPECT_NE(synthetic_popularity(routing, 0, Step(10)), first);
  EXPECT_NE(synthetic_popularity(routing, 1, Step(0)), first);
  SyntheticRouting other = routing;
  other.seed = 2;
  EXPECT_NE(synthetic_popularity(other, 0, Step(0)), first);
  other = routing;
  other.drift_steps = 0;
  EXPECT_EQ(synthetic_popularity(other, 0, Step(1'000'000)), first);
}

TEST(SyntheticRouting, AnyExpertMayBeChosenHoweverSkewed) {
  for (int layer = 0; layer < 200; ++layer) {
    const auto popularity = synthetic_popularity({.experts = 64, .skew = 0.999}, layer, Step(0));
    EXPECT_GT(*std::ranges::min_element(popularity), 0);
    EXPECT_NEAR(std::accumulate(popularity.begin(), popularity.end(), 0.0), 1, 1e-12);
  }
}

TEST(SyntheticRouting, ATokenGoesToDifferentExperts) {
  for (const double skew : {0.0, 0.5, 0.99}) {
    const SyntheticRouting routing{.experts = 6, .top_k = 4, .skew = skew};
    const std::vector<int64_t> chosen = choices(routing, Step(3), MicroBatch(1), 500);
    ASSERT_EQ(chosen.size(), 2000u);
    for (auto token = chosen.begin(); token != chosen.end(); token += 4) {
      EXPECT_EQ(std::set<int64_t>(token, token + 4).size(), 4u);
      EXPECT_TRUE(std::all_of(token, token + 4, [](int64_t e) { return 0 <= e && e < 6; }));
    }
  }
}

TEST(SyntheticRouting, TokensGoToExpertsByTheirPopularity) {
  const SyntheticRouting routing{.seed = 5, .experts = 8, .skew = 0.4};
  const auto popularity = synthetic_popularity(routing, 0, Step(0));
  std::vector<double> share(8);
  constexpr int64_t kTokens = 40'000;
  for (const int64_t expert : choices(routing, Step(0), MicroBatch(0), kTokens))
    share[static_cast<size_t>(expert)] += 1.0 / kTokens;
  for (size_t e = 0; e < share.size(); ++e) EXPECT_NEAR(share[e], popularity[e], 0.01) << e;
}

TEST(SyntheticRouting, ChoicesAreAFunctionOfStepMicroBatchAndToken) {
  const SyntheticRouting routing{.experts = 8, .top_k = 2, .skew = 0.3};
  const auto chosen = choices(routing, Step(4), MicroBatch(2), 100);
  EXPECT_EQ(choices(routing, Step(4), MicroBatch(2), 100), chosen);
  EXPECT_NE(choices(routing, Step(5), MicroBatch(2), 100), chosen);
  EXPECT_NE(choices(routing, Step(4), MicroBatch(3), 100), chosen);
  const auto fewer = choices(routing, Step(4), MicroBatch(2), 60);
  EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), chosen.begin()));
}

TEST(NormalisedHhi, IsZeroForEqualLoadsAndOneForOneExpert) {
  EXPECT_EQ(normalised_hhi(std::vector<int64_t>{5, 5, 5, 5}), 0);
  EXPECT_EQ(normalised_hhi(std::vector<int64_t>{0, 9, 0}), 1);
  EXPECT_EQ(normalised_hhi(std::vector<int64_t>{0, 0}), 0);
  EXPECT_EQ(normalised_hhi(std::vector<int64_t>{7}), 0);
  // (9/16 + 1/16 - 1/2) / (1/2)
  EXPECT_DOUBLE_EQ(normalised_hhi(std::vector<int64_t>{3, 1}), 0.25);
}

}  // namespace
}  // namespace evermoe
