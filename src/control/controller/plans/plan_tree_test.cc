#include "control/controller/plans/plan_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {
namespace {

// The place of everybody's server; "-": the controller.
std::string servers_of(const std::vector<std::string>& addresses, size_t branches) {
  return absl::StrJoin(plan_tree(addresses, branches), " ", [](std::string* out, const auto& one) {
    absl::StrAppend(out, one.agent ? absl::StrCat(*one.agent) : "-");
  });
}

TEST(PlanTree, TheControllerServesTheFirstFewAndEachOfThemAsMany) {
  const std::vector<std::string> nine(9, "10.0.0.1:7");
  EXPECT_EQ(servers_of(nine, 2), "- - 0 0 1 1 2 2 3");
  EXPECT_EQ(servers_of(nine, 1), "- 0 1 2 3 4 5 6 7");
  EXPECT_EQ(servers_of(nine, 16), "- - - - - - - - -");
  EXPECT_EQ(servers_of({}, 2), "");
}

TEST(PlanTree, WhoHasNoAddressIsServedByTheControllerAndServesNobody) {
  EXPECT_EQ(servers_of({"", "a:1", "", "b:1", "c:1"}, 1), "- - - 1 3");
  EXPECT_EQ(servers_of({"", "", ""}, 1), "- - -");
}

TEST(PlanTree, AnAddressInsideAMachineIsForThatMachine) {
  EXPECT_EQ(servers_of({"127.0.0.1:1", "127.0.0.1:2", "[::1]:3"}, 1), "- 0 1");
  EXPECT_EQ(servers_of({"unix:/a/1", "unix:/a/2", "127.0.0.1:1"}, 1), "- 0 1");
  EXPECT_EQ(servers_of({"unix:/a/1", "10.0.0.2:2", "10.0.0.3:3"}, 1), "- - 1");
  EXPECT_EQ(servers_of({"127.0.0.1:1", "10.0.0.2:2", "10.0.0.3:3"}, 1), "- - 1");
}

TEST(PlanTree, IsShallowAndNobodyServesMoreThanTheOthers) {
  for (const size_t branches : {1, 2, 3, 8}) {
    for (const size_t nodes : {1, 7, 64, 1000}) {
      std::map<size_t, size_t> served;
      size_t by_controller = 0, reached = 0;
      const auto servers = plan_tree(std::vector<std::string>(nodes, "a:1"), branches);
      for (size_t i = 0; i < nodes; ++i) {
        by_controller += servers[i].agent ? 0 : 1;
        if (!servers[i].agent) continue;
        EXPECT_LT(*servers[i].agent, i);
        EXPECT_EQ(servers[i].depth, servers[*servers[i].agent].depth + 1);
        EXPECT_LE(++served[*servers[i].agent], branches);
      }
      EXPECT_LE(by_controller, branches);
      int depth = 0;
      for (size_t width = branches; reached + width < nodes; width *= branches, ++depth)
        reached += width;
      EXPECT_EQ(servers.back().depth, depth) << nodes << " nodes, " << branches << " branches";
    }
  }
}

}  // namespace
}  // namespace evermoe
