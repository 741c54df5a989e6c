// place in the real binary: placements of experts, moves between them, and what wrong input gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/run_binary_testing.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

class PlaceCommandTest : public BinaryTest {};

TEST_F(PlaceCommandTest, PlaceShowsNodesAndWhatTheySurvive) {
  const std::string text = printed({"place", "--experts", "3", "--nodes", "3", "--slots", "2"});
  EXPECT_THAT(
      text,
      StartsWith(
          "3 experts on 3 nodes of 2 slots, mro_q: every expert survives any one failed node\n"));
  EXPECT_THAT(text,
              HasSubstr("chance that some expert is lost, by failed nodes: 1: never, 2: always\n"));
  const Json json = Json::parse(printed(
      {"place", "--loads", "0,3,5", "--nodes", "2", "--slots", "3", "--faults", "1", "--json"}));
  EXPECT_THAT(json["replicas"], ElementsAre(1, 2, 3));
  EXPECT_EQ(json["experts_of_nodes"].size(), 2u);
  // The vector of ten nodes in two groups of five.
  const Json groups = Json::parse(printed(
      {"place", "--experts", "4", "--nodes", "10", "--slots", "2", "--faults", "5", "--json"}));
  EXPECT_NEAR(groups["survival_by_lost_nodes"][5].get<double>(), 0.9921, 5e-5);
  EXPECT_NEAR(groups["survival_by_lost_nodes"][8].get<double>(), 0.5556, 5e-5);
}

TEST_F(PlaceCommandTest, PlaceExplains) {
  const std::string loads = folder_.write("loads.txt", "100 200\n400, 100\n");
  const std::string text = printed(
      {"place", "--loads", loads, "--nodes", "4", "--slots", "2", "--explain", "--racks", "2"});
  for (const char* part :
       {"replicas: every expert gets 2 first", "not allowed", "nodes: experts on the same set",
        "hold experts", "other placements", "compact", "by failed racks: 1: never"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

// Racks of neighbours: with the plan's own order a group of two nodes would stand in one rack.
TEST_F(PlaceCommandTest, RacksKeepReplicasApart) {
  const Json json = Json::parse(printed(
      {"place", "--experts", "4", "--nodes", "4", "--slots", "2", "--racks", "2", "--json"}));
  EXPECT_EQ(json["survival_by_lost_racks"][1], 1.0);
  EXPECT_TRUE(json["experts_in_one_rack"].empty());
}

// The transfers, carried out one by one, must lead from what the live nodes hold to the placement.
TEST_F(PlaceCommandTest, AMoveLeadsFromThePlacementBefore) {
  const std::string before =
      printed({"place", "--experts", "16", "--nodes", "8", "--slots", "4", "--json"});
  const std::string file = folder_.write("before.json", before);
  for (const char* const racks : {"0", "3"}) {
    SCOPED_TRACE(racks);
    const Json json =
        Json::parse(printed({"place", "--experts", "16", "--nodes", "7", "--slots", "5", "--racks",
                             racks, "--from", file, "--lost", "3,5", "--json"}));
    const Json& migration = json["migration"];
    EXPECT_THAT(migration["nodes_before"], ElementsAre(0, 1, 2, 4, 6, 7, -1));
    std::vector<std::set<int>> held(7);
    const Json experts_before = Json::parse(before)["experts_of_nodes"];
    for (size_t node = 0; node < 6; ++node)
      held[node] =
          experts_before[migration["nodes_before"][node].get<size_t>()].get<std::set<int>>();
    std::set<std::pair<int, int>> sent, received;  // (round, node)
    for (const Json& one : migration["transfers"]) {
      const int expert = one["expert"], round = one["round"];
      EXPECT_LT(round, migration["rounds"]);
      EXPECT_TRUE(held[one["source"].get<size_t>()].contains(expert));
      EXPECT_TRUE(held[one["destination"].get<size_t>()].insert(expert).second);
      EXPECT_TRUE(sent.emplace(round, one["source"]).second);
      EXPECT_TRUE(received.emplace(round, one["destination"]).second);
    }
    EXPECT_FALSE(sent.empty());
    EXPECT_TRUE(migration["unavailable"].empty());  // two replicas of each, on other nodes
    for (size_t node = 0; node < 7; ++node) {
      for (const int expert : json["experts_of_nodes"][node])
        EXPECT_TRUE(held[node].contains(expert)) << node << " lacks " << expert;
    }
  }
}

TEST_F(PlaceCommandTest, AMoveSaysWhoSendsWhatAndWhatIsMissing) {
  const std::string file = folder_.write("before.json", "{\"experts_of_nodes\": [[0], [1], [2]]}");
  EXPECT_EQ(printed({"place", "--experts", "3", "--nodes", "3", "--slots", "1", "--faults", "1",
                     "--from", file, "--lost", "1"}),
            R"(3 experts on 3 nodes of 1 slots, mro_q: one failed node can lose an expert
  busiest node  1.000 times the mean load
  chance that some expert is lost, by failed nodes: 1: always
migration: 0 transfers in 0 rounds; a node sends 0 and receives 0 at most, one of each in a round
  no live node holds expert 1: node 2 reads it from a copy
  node 0        0
  node 1 (was 2) 2
  node 2 (new)  1
)");
  auto refused = [&](const std::string& text, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"place",   "--experts", "2",
                                          "--nodes", "2",         "--slots",
                                          "2",       "--from",    folder_.write("b.json", text)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return refusal(arguments);
  };
  EXPECT_EQ(refused("[]", {}),
            "evermoe: D/b.json: found no list \"experts_of_nodes\", allowed: what `evermoe place "
            "--json` prints");
  EXPECT_EQ(refused("{\"experts_of_nodes\": [[2]]}", {}),
            "evermoe: D/b.json: experts_of_nodes: found 2, allowed: experts 0 to 1");
  EXPECT_EQ(refused("{\"experts_of_nodes\": [[\"1\"]]}", {}),
            "evermoe: D/b.json: experts_of_nodes: found \"1\", allowed: experts 0 to 1");
  EXPECT_EQ(refused("{\"experts_of_nodes\": [[0]]}", {"--lost", "1"}),
            "evermoe: --lost: found a node that is not in D/b.json, allowed: 0 to 0");
  EXPECT_EQ(
      refused("{\"experts_of_nodes\": [[0], [1], [1]]}", {}),
      "evermoe: --nodes: found 2 for 3 nodes of D/b.json, allowed: as many, or name those that "
      "failed with --lost");
  EXPECT_THAT(refused("{", {}), StartsWith("evermoe: D/b.json"));
  EXPECT_EQ(refusal({"place", "--experts", "2", "--nodes", "2", "--slots", "2", "--lost", "1"}),
            "evermoe: place: found --lost without --from, allowed: both or neither");
}

TEST_F(PlaceCommandTest, WrongInputIsOneLine) {
  EXPECT_EQ(refusal({"place", "--nodes", "2", "--slots", "2"}),
            "evermoe: place: allowed: either --experts (with equal loads) or --loads");
  EXPECT_EQ(refusal({"place", "--experts", "9", "--nodes", "2", "--slots", "2"}),
            "evermoe: place: --slots: found 2, allowed: 5 to 8388608");
  EXPECT_EQ(refusal({"place", "--loads", "1,x", "--nodes", "2", "--slots", "2"}),
            "evermoe: --loads: found \"x\", allowed: numbers of tokens, or a file with them");
  EXPECT_THAT(
      refusal({"place", "--experts", "2", "--nodes", "2", "--slots", "2", "--method", "best"}),
      StartsWith("evermoe: "));
  EXPECT_EQ(refusal({"place", "--experts", "2", "--nodes", "2", "--slots", "2", "--racks", "3"}),
            "evermoe: place: --racks: found 3, allowed: 0 to 2");
}

}  // namespace
}  // namespace evermoe
