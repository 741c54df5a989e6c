#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "control/controller/status/copy_book.h"
#include "control/controller/status/survivable_losses.h"

namespace evermoe {
namespace {

using Sets = std::vector<std::vector<int>>;

std::vector<std::vector<Node>> nodes(const Sets& sets) {
  std::vector<std::vector<Node>> result;
  for (const std::vector<int>& set : sets) {
    std::vector<Node>& one = result.emplace_back();
    for (const int node : set) one.emplace_back(node);
  }
  return result;
}

std::string survives(const Sets& keepers, int in_use) {
  std::vector<Node> all;
  for (int node = 0; node < in_use; ++node) all.emplace_back(node);
  return to_text(survivable_losses(nodes(keepers), all));
}

TEST(SurvivableLosses, OneCopyElsewhereSurvivesAnyOneNode) {
  EXPECT_EQ(survives({{0, 1}, {1, 2}, {2, 0}}, 3), "any one node; any two but 0+1, 0+2, 1+2");
  EXPECT_EQ(survives({{0, 1}, {1, 0}, {2, 3}, {3, 2}}, 4), "any one node; any two but 0+1, 2+3");
}

TEST(SurvivableLosses, TwoCopiesSurviveAnyTwo) {
  EXPECT_EQ(survives({{0, 1, 2}, {1, 2, 3}, {2, 3, 0}, {3, 0, 1}}, 4),
            "any two; any three but 0+1+2, 0+1+3, 0+2+3, 1+2+3");
}

TEST(SurvivableLosses, CopiesOnTheSameNodeDoNotHelp) {
  EXPECT_EQ(survives({{0}, {0, 0}, {1, 0}}, 2), "any one node but 0");
}

TEST(SurvivableLosses, SomebodyHasToBeLeft) {
  EXPECT_EQ(survives({}, 1), "any one node but 0");
  EXPECT_EQ(survives({}, 2), "any one node; any two but 0+1");
}

TEST(SurvivableLosses, StateThatIsGoneIsGone) {
  EXPECT_EQ(survives({{0, 1}, {}}, 2),
            "none from memory: all go back to the newest checkpoint on disk");
}

TEST(SurvivableLosses, ManySetsAreCounted) {
  Sets sets;
  for (int node = 0; node + 1 < 200; ++node) sets.push_back({node, node + 1});
  const SurvivableLosses losses = survivable_losses(nodes(sets), {Node(0), Node(5), Node(9)});
  EXPECT_EQ(losses.fatal.size(), kFatalSetsMax);
  EXPECT_EQ(losses.fatal_sets, 199);
  EXPECT_THAT(to_text(losses), testing::EndsWith("7+8 and 191 others"));
}

// Whatever sets there are: every one that is called fatal contains no smaller loss that is not
// survived, and all losses of `any` nodes are survived, by brute force.
TEST(SurvivableLosses, AgreesWithBruteForce) {
  uint32_t seed = 1;
  const auto below = [&](uint32_t n) { return (seed = seed * 1664525 + 1013904223) / 65536 % n; };
  for (int trial = 0; trial < 300; ++trial) {
    Sets keepers;
    for (uint32_t r = 0; r < 1 + below(6); ++r) {
      keepers.emplace_back();
      for (uint32_t k = 0; k < 1 + below(3); ++k)
        keepers.back().push_back(static_cast<int>(below(5)));
    }
    const auto is_survived = [&](unsigned lost) {
      if (lost == 31) return false;
      return std::all_of(keepers.begin(), keepers.end(), [&](const std::vector<int>& set) {
        return std::any_of(set.begin(), set.end(), [&](int n) { return (lost >> n & 1) == 0; });
      });
    };
    int any = 5;
    for (unsigned lost = 0; lost < 32; ++lost) {
      if (!is_survived(lost)) any = std::min(any, __builtin_popcount(lost) - 1);
    }
    std::vector<std::vector<int>> fatal;
    for (unsigned lost = 0; lost < 32; ++lost) {
      if (__builtin_popcount(lost) == any + 1 && !is_survived(lost)) {
        fatal.emplace_back();
        for (int n = 0; n < 5; ++n)
          if (lost >> n & 1) fatal.back().push_back(n);
      }
    }
    std::sort(fatal.begin(), fatal.end());
    const SurvivableLosses losses =
        survivable_losses(nodes(keepers), nodes({{0, 1, 2, 3, 4}}).front());
    EXPECT_EQ(losses.any, any);
    EXPECT_EQ(losses.fatal, nodes(fatal));
  }
}

// ---- copies

// Roles 0 and 1 on nodes 0 and 1, each other's holders, in a view with this plan.
class Copies {
 public:
  explicit Copies(Step window, StrategyKind kind = StrategyKind::kSparse)
      : roles_(2), book_(strategy_of(kind)) {
    plan_.window = window;
    plan_.state = Step(window.value + 3);
    plan_.holders = {{Rank(1)}, {Rank(0)}};
    for (const int r : {0, 1}) {
      MemberJoined joined;
      joined.rank = Rank(r);
      joined.node = Node(r);
      roles_.join(joined, absl::ZeroDuration());
      roles_[Rank(r)].report = Report{};
    }
  }
  Copies& holds(int rank, int owner, int64_t gradients = 0) {
    roles_[Rank(rank)].report->held.push_back({Rank(owner), plan_.window, gradients});
    return *this;
  }
  Copies& rests(int rank, int64_t since) {
    plan_.membership.push_back({.step = Step(since), .resting = {Rank(rank)}});
    return *this;
  }
  Copies& renews() { return plan_.renews = true, *this; }
  Copies& plan() { return book_.on_plan(plan_, roles_), *this; }
  Copies& step(int64_t step) { return this->step(step, plan_.window.value); }
  Copies& step(int64_t step, int64_t window) {
    return book_.on_step(Step(step), Step(window)), *this;
  }
  std::string survives() const { return to_text(book_.survivable(roles_)); }

 private:
  RoleTable roles_;
  Plan plan_;
  CopyBook book_;
};

TEST(CopyBook, BeforeAPlanNothingIsKnown) {
  EXPECT_EQ(Copies(Step(4)).survives(), "not known yet");
}

TEST(CopyBook, BeforeTheFirstWindowNoCopyIsNeeded) {
  EXPECT_EQ(Copies(Step(-1)).plan().survives(), "any one node; any two but 0+1");
}

TEST(CopyBook, AfterALossCopiesAreMissingForTwoSteps) {
  // Role 1 is new: it holds nothing yet, neither its own nor its neighbour's.
  Copies copies(Step(4));
  copies.holds(0, 0).holds(0, 1).plan();
  EXPECT_EQ(copies.survives(), "any one node but 0");
  EXPECT_EQ(copies.step(8).step(8).survives(), "any one node but 0");
  EXPECT_EQ(copies.step(9).survives(), "any one node; any two but 0+1");
}

TEST(CopyBook, ARoleThatCameWholeLacksWindowsUntilTheNextOneIsComplete) {
  Copies copies(Step(4));
  copies.holds(0, 0).holds(0, 1).renews().plan();
  EXPECT_EQ(copies.step(8).step(9).step(10).survives(), "any one node but 0");
  EXPECT_EQ(copies.step(11, 7).survives(), "any one node; any two but 0+1");
}

TEST(CopyBook, ARoleThatRestedAtTheWindowNeedsNoCopy) {
  const auto survives = [](int64_t since) {
    return Copies(Step(4)).holds(0, 0).holds(1, 0).rests(1, since).plan().survives();
  };
  EXPECT_EQ(survives(3), "any one node; any two but 0+1");
  EXPECT_EQ(survives(5), "none from memory: all go back to the newest checkpoint on disk")
      << "it trained at the window";
}

TEST(CopyBook, AWindowWithoutTheGradientsSinceIsOfNoUse) {
  const auto survives = [](int64_t gradients) {
    Copies copies(Step(4), StrategyKind::kGradients);
    return copies.holds(0, 0, 3)
        .holds(1, 1, 3)
        .holds(0, 1, 3)
        .holds(1, 0, gradients)
        .plan()
        .survives();
  };
  EXPECT_EQ(survives(3), "any one node; any two but 0+1");
  EXPECT_EQ(survives(2), "any one node but 0");
}

TEST(CopyBook, WithoutProtectionAllGoBackToDisk) {
  EXPECT_EQ(to_text(CopyBook(strategy_of(StrategyKind::kNone)).survivable(RoleTable(2))),
            "none from memory: all go back to the newest checkpoint on disk");
}

}  // namespace
}  // namespace evermoe
