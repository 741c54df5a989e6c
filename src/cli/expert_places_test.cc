#include "cli/reports/expert_places.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

LayerBalance layer(std::vector<int64_t> loads, ExpertsOfNodes experts_of) {
  return {.loads = std::move(loads), .experts_of = std::move(experts_of)};
}

TEST(ExpertPlacesTest, SaysReplicasLoadAndWhatIsSurvived) {
  // Expert 0 on all lanes; 1 and 2 on two each.
  const auto places = expert_places({layer({0, 2, 10}, {{0, 1}, {0, 1, 2}, {0, 2}})});
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].replicas, (std::vector<int>{3, 2, 2}));
  EXPECT_DOUBLE_EQ(places[0].imbalance, 5.0 / 4);  // 2, 5, 5: lanes 1 and 2 share expert 2
  // Lanes 0 and 1, or 1 and 2, take an expert with them; 0 and 2 do not.
  ASSERT_EQ(places[0].survives.size(), 3u);
  EXPECT_DOUBLE_EQ(places[0].survives[0], 1);
  EXPECT_DOUBLE_EQ(places[0].survives[1], 1.0 / 3);
  EXPECT_DOUBLE_EQ(places[0].survives[2], 0);
  EXPECT_EQ(
      to_text(places),
      "MoE layer 0: replicas 3 2 2 on 3 lanes, the busiest 1.25 times the mean; survives any 1 "
      "lost lane, 2 with 33.3 %\n");
  const auto json = to_json_value(places);
  EXPECT_EQ(json[0]["replicas"], nlohmann::ordered_json::parse("[3, 2, 2]"));
  EXPECT_EQ(json[0]["experts_of_lanes"][2], nlohmann::ordered_json::parse("[0, 2]"));
}

TEST(ExpertPlacesTest, OfManyExpertsOnlyHowManyHaveHowMany) {
  std::vector<int> all(20);
  for (int expert = 0; expert < 20; ++expert) all[static_cast<size_t>(expert)] = expert;
  const auto places =
      expert_places({layer({}, {}), layer(std::vector<int64_t>(20, 1), {all, {3, 4}})});
  EXPECT_EQ(places[0].lanes, 0);
  const std::string text = to_text(places);
  EXPECT_EQ(text.find("MoE layer 1: 18 experts with 1 replica, 2 experts with 2 replicas on 2 "),
            0u)
      << text;
  EXPECT_NE(text.find("survives no lost lane for sure, 1 with 50.0 %"), std::string::npos) << text;
}

}  // namespace
}  // namespace evermoe
