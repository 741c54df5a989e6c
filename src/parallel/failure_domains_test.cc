#include "parallel/failure_domains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "parallel/random_testing.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

DomainPath path(std::string_view text) {
  auto parsed = DomainPath::parse(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return *parsed;
}

TEST(DomainPathTest, HasAtMostTwoPartsAndNoneIsEmpty) {
  EXPECT_EQ(path(""), (DomainPath{}));
  EXPECT_EQ(path("r1"), (DomainPath{.switch_name = "", .rack = "r1"}));
  EXPECT_EQ(path("s1/r1"), (DomainPath{.switch_name = "s1", .rack = "r1"}));
  for (const char* bad : {"/", "s/", "/r", "a/b/c", "//"}) {
    const auto refused = DomainPath::parse(bad);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("expected RACK or SWITCH/RACK"));
  }
}

TEST(FailureDomainsTest, RacksOfOneNameOnTwoSwitchesDiffer) {
  const FailureDomains domains({path("s1/r1"), path("s1/r1"), path("s2/r1"), path("s1/r2")});
  EXPECT_EQ(domains.count(DomainLevel::kNode), 4);
  EXPECT_EQ(domains.count(DomainLevel::kRack), 3);
  EXPECT_EQ(domains.count(DomainLevel::kSwitch), 2);
  EXPECT_TRUE(domains.share(0, 1, DomainLevel::kRack));
  EXPECT_FALSE(domains.share(0, 2, DomainLevel::kRack));
  EXPECT_TRUE(domains.share(0, 3, DomainLevel::kSwitch));
}

TEST(FailureDomainsTest, WhatIsNotKnownIsAlone) {
  const FailureDomains domains({path(""), path(""), path("r1"), path("r1"), path("r2")});
  EXPECT_EQ(domains.count(DomainLevel::kRack), 4);
  EXPECT_EQ(domains.count(DomainLevel::kSwitch),
            4);  // a rack's switch is known as far as the rack is
  EXPECT_TRUE(domains.share(2, 3, DomainLevel::kSwitch));
  EXPECT_EQ(FailureDomains::nodes_only(3).count(DomainLevel::kSwitch), 3);
}

TEST(FailureDomainsTest, LevelsAreNested) {
  TestRandom random(1);
  const char* paths[] = {"", "a", "b", "s/a", "s/b", "t/a"};
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<DomainPath> of;
    for (int node = random.integer(1, 9); node > 0; --node)
      of.push_back(path(paths[random.integer(0, 5)]));
    const FailureDomains domains(of);
    for (int a = 0; a < domains.nodes(); ++a) {
      for (int b = 0; b < domains.nodes(); ++b) {
        if (domains.share(a, b, DomainLevel::kRack)) {
          EXPECT_TRUE(domains.share(a, b, DomainLevel::kSwitch));
        }
      }
    }
  }
}

// A world as copy_holders sees it.
struct World {
  std::vector<int> lanes;
  std::vector<int> node_of_rank;
  std::vector<DomainPath> paths;
  CopyPolicy policy;

  Topology topology() const { return Topology(lanes, static_cast<int64_t>(lanes.size())); }
  FailureDomains domains() const { return FailureDomains(paths); }
  absl::StatusOr<CopyHolders> holders() const {
    return copy_holders(topology(), node_of_rank, domains(), policy);
  }
  int ranks() const { return topology().world_size(); }
  std::vector<int> stages() const {
    std::vector<int> of;
    for (int rank = 0; rank < ranks(); ++rank) of.push_back(topology().role_of(Rank(rank)).stage);
    return of;
  }
  std::vector<int> rank_domains() const {
    const FailureDomains all = domains();
    std::vector<int> of;
    for (const int node : node_of_rank) of.push_back(all.domain_of(node, policy.level));
    return of;
  }
};

World regular(int stages, int lanes, int ranks_per_node, int copies) {
  World world{.lanes = std::vector<int>(stages, lanes), .policy = {.copies = copies}};
  for (int rank = 0; rank < stages * lanes; ++rank)
    world.node_of_rank.push_back(rank / ranks_per_node);
  world.paths.resize(world.node_of_rank.back() + 1);
  return world;
}

World random_world(TestRandom& random, int ranks_max, int stages_max, int domains_max,
                   int copies_max) {
  World world;
  const int ranks = random.integer(1, ranks_max);
  for (int left = ranks; left > 0;) {
    const bool is_last = static_cast<int>(world.lanes.size()) + 1 == stages_max;
    world.lanes.push_back(is_last ? left : random.integer(1, left));
    left -= world.lanes.back();
  }
  const int nodes = random.integer(1, domains_max + 2);
  for (int node = 0; node < nodes; ++node) {
    world.paths.push_back(path("r" + std::to_string(random.integer(0, domains_max - 1))));
  }
  for (int rank = 0; rank < ranks; ++rank)
    world.node_of_rank.push_back(random.integer(0, nodes - 1));
  world.policy = {.copies = random.integer(1, copies_max),
                  .level = random.integer(0, 1) == 0 ? DomainLevel::kNode : DomainLevel::kRack};
  return world;
}

int domains_used(const World& world) {
  const std::vector<int> of = world.rank_domains();
  return static_cast<int>(std::set<int>(of.begin(), of.end()).size());
}

void expect_sound(const World& world, const CopyHolders& plan) {
  const std::vector<int> stage = world.stages(), domain = world.rank_domains();
  int kept_max = 0, pairs = 0, inside = 0;
  for (int rank = 0; rank < world.ranks(); ++rank) {
    const auto& of = plan.holders_of[rank];
    ASSERT_EQ(of.size(), static_cast<size_t>(world.policy.copies));
    std::set<int> domains = {domain[rank]};
    int same = 0;
    for (const Rank holder : of) {
      ASSERT_TRUE(domains.insert(domain[holder.value]).second) << "two in one domain";
      same += stage[holder.value] == stage[rank];
      const auto& kept = plan.kept_by[holder.value];
      ASSERT_EQ(std::count(kept.begin(), kept.end(), Rank(rank)), 1);
    }
    const auto is_outside = [&](Rank holder) { return stage[holder.value] != stage[rank]; };
    ASSERT_TRUE(std::is_partitioned(of.begin(), of.end(), is_outside));
    pairs += same;
    inside += same == world.policy.copies;
    kept_max = std::max(kept_max, static_cast<int>(plan.kept_by[rank].size()));
    ASSERT_TRUE(std::is_sorted(plan.kept_by[rank].begin(), plan.kept_by[rank].end()));
  }
  EXPECT_EQ(plan.kept_max, kept_max);
  EXPECT_EQ(plan.pairs_in_stage, pairs);
  EXPECT_EQ(plan.ranks_in_stage, inside);
}

// (kept_max, pairs in a stage, ranks in their stage) of the best of all choices.
class AllChoices {
 public:
  explicit AllChoices(const World& world)
      : copies_(world.policy.copies),
        stage_(world.stages()),
        domain_(world.rank_domains()),
        kept_(stage_.size(), 0) {
    choose(0, 0, uint32_t{1} << domain_[0], 0, 0);
  }
  std::tuple<int, int, int> best() const { return best_; }

 private:
  // Chooses the remaining holders of `rank`, from rank `from` on, and those of the ranks after it.
  void choose(size_t rank, size_t from, uint32_t domains_used, int chosen, int same) {
    if (chosen == copies_) {
      pairs_ += same;
      inside_ += same == copies_;
      if (rank + 1 == stage_.size()) {
        best_ = std::min(
            best_, std::tuple(*std::max_element(kept_.begin(), kept_.end()), pairs_, inside_));
      } else {
        choose(rank + 1, 0, uint32_t{1} << domain_[rank + 1], 0, 0);
      }
      pairs_ -= same;
      inside_ -= same == copies_;
      return;
    }
    for (size_t holder = from; holder < stage_.size(); ++holder) {
      const uint32_t domain = uint32_t{1} << domain_[holder];
      if ((domains_used & domain) || kept_[holder] + 1 > std::get<0>(best_)) continue;
      ++kept_[holder];
      choose(rank, holder + 1, domains_used | domain, chosen + 1,
             same + (stage_[holder] == stage_[rank]));
      --kept_[holder];
    }
  }

  const int copies_;
  const std::vector<int> stage_, domain_;  // by rank
  std::vector<int> kept_;
  int pairs_ = 0, inside_ = 0;
  std::tuple<int, int, int> best_{1000, 0, 0};
};

TEST(CopyHoldersTest, AsGoodAsTheBestOfAllChoices) {
  TestRandom random(2);
  int compared = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const World world = random_world(random, 6, 3, 5, 2);
    const auto plan = world.holders();
    if (domains_used(world) <= world.policy.copies) {
      ASSERT_FALSE(plan.ok());
      continue;
    }
    ASSERT_TRUE(plan.ok()) << plan.status();
    expect_sound(world, *plan);
    EXPECT_EQ(std::tuple(plan->kept_max, plan->pairs_in_stage, plan->ranks_in_stage),
              AllChoices(world).best())
        << "trial " << trial;
    ++compared;
  }
  EXPECT_GT(compared, 1500);
}

TEST(CopyHoldersTest, EveryRankKeepsAsManyAsItGivesWhereNodesAreAlike) {
  for (int stages = 1; stages <= 4; ++stages) {
    for (int lanes = 1; lanes <= 8; ++lanes) {
      for (int per_node = 1; per_node <= 4; ++per_node) {
        if (stages * lanes % per_node != 0) continue;
        for (int copies = 1; copies <= 3; ++copies) {
          const World world = regular(stages, lanes, per_node, copies);
          const auto plan = world.holders();
          ASSERT_EQ(plan.ok(), static_cast<int>(world.paths.size()) > copies);
          if (!plan.ok()) continue;
          expect_sound(world, *plan);
          EXPECT_EQ(plan->kept_max, copies);
          for (const auto& kept : plan->kept_by)
            EXPECT_EQ(kept.size(), static_cast<size_t>(copies));
        }
      }
    }
  }
}

TEST(CopyHoldersTest, LosingAnyNodeOrAnyStageLosesNoShardWithItsCopies) {
  for (const auto& [stages, lanes, per_node] :
       {std::tuple(2, 4, 2), std::tuple(4, 4, 4), std::tuple(3, 4, 1)}) {
    const World world = regular(stages, lanes, per_node, 1);
    const auto plan = world.holders();
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->pairs_in_stage, 0);
    EXPECT_EQ(plan->ranks_in_stage, 0);
    for (size_t node = 0; node < world.paths.size(); ++node) {
      std::vector<bool> failed(world.paths.size(), false);
      failed[node] = true;
      EXPECT_TRUE(ranks_without_copy(*plan, world.node_of_rank, failed).empty());
    }
    for (int stage = 0; stage < stages; ++stage) {
      std::vector<bool> failed(world.paths.size(), false);
      for (int lane = 0; lane < lanes; ++lane)
        failed[world.node_of_rank[stage * lanes + lane]] = true;
      EXPECT_TRUE(ranks_without_copy(*plan, world.node_of_rank, failed).empty())
          << "stage " << stage;
    }
  }
}

TEST(CopyHoldersTest, AnyAsManyLostDomainsAsThereAreCopiesLoseNothing) {
  TestRandom random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const World world = random_world(random, 12, 3, 6, 3);
    const auto plan = world.holders();
    if (!plan.ok()) continue;
    expect_sound(world, *plan);
    const FailureDomains domains = world.domains();
    for (int draw = 0; draw < 10; ++draw) {
      std::vector<int> order(domains.count(world.policy.level));
      std::iota(order.begin(), order.end(), 0);
      random.shuffle(order);
      order.resize(std::min<size_t>(order.size(), static_cast<size_t>(world.policy.copies)));
      std::vector<bool> failed;
      for (int node = 0; node < domains.nodes(); ++node) {
        failed.push_back(std::count(order.begin(), order.end(),
                                    domains.domain_of(node, world.policy.level)) > 0);
      }
      EXPECT_TRUE(ranks_without_copy(*plan, world.node_of_rank, failed).empty());
    }
  }
}

TEST(CopyHoldersTest, HoldersDependOnThePatternNotOnTheNumbersOfNodes) {
  TestRandom random(4);
  for (int trial = 0; trial < 200; ++trial) {
    World world = random_world(random, 12, 3, 6, 2);
    const auto before = world.holders();
    std::vector<int> number(world.paths.size());
    std::iota(number.begin(), number.end(), 0);
    random.shuffle(number);
    World renamed = world;
    for (size_t node = 0; node < number.size(); ++node)
      renamed.paths[number[node]] = world.paths[node];
    for (int& node : renamed.node_of_rank) node = number[node];
    const auto after = renamed.holders();
    ASSERT_EQ(before.ok(), after.ok());
    if (before.ok()) {
      EXPECT_EQ(before->holders_of, after->holders_of);
    }
  }
}

TEST(CopyHoldersTest, RefusesWithTheReason) {
  World world = regular(1, 2, 1, 2);
  EXPECT_EQ(world.holders().status().message(),
            "2 copies of every rank need 3 failure domains (node) with ranks, there are 2");
  world = regular(2, 2, 1, 1);
  world.paths.assign(4, path("s/r"));
  world.policy.level = DomainLevel::kRack;
  EXPECT_EQ(world.holders().status().message(),
            "1 copy of every rank need 2 failure domains (rack) with ranks, there is 1");
  world.policy.copies = -1;
  EXPECT_FALSE(world.holders().ok());
  world.policy.copies = 0;
  ASSERT_TRUE(world.holders().ok());
  EXPECT_EQ(world.holders()->kept_max, 0);
  world.node_of_rank[2] = 4;
  EXPECT_EQ(world.holders().status().message(), "rank 2 is on node 4, but there are 4 nodes");
}

TEST(CopyHoldersTest, UnevenDomainsAreAsEvenAsTheyCanBe) {
  // Five ranks in rack a can only give to the two ranks elsewhere.
  World world{.lanes = {7},
              .node_of_rank = {0, 0, 0, 0, 0, 1, 2},
              .paths = {path("a"), path("b"), path("c")}};
  const auto plan = world.holders();
  ASSERT_TRUE(plan.ok());
  expect_sound(world, *plan);
  EXPECT_EQ(plan->kept_max, 3);
}

TEST(CopyHoldersTest, ManyDomainsAreBalancedAndLeaveTheStage) {
  for (const bool interleaved : {false, true}) {
    const int stages = 8, nodes = 512, copies = 2;
    World world{.lanes = std::vector<int>(stages, nodes / stages),
                .paths = std::vector<DomainPath>(nodes),
                .policy = {.copies = copies}};
    for (int rank = 0; rank < nodes; ++rank) {
      const int lane = rank % (nodes / stages), stage = rank / (nodes / stages);
      world.node_of_rank.push_back(interleaved ? lane * stages + stage : rank);
    }
    const auto plan = world.holders();
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->kept_max, copies);
    EXPECT_EQ(plan->pairs_in_stage, 0);
  }
}

}  // namespace
}  // namespace evermoe
