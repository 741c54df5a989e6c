#include "control/wire/plan_update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "control/wire/control_codec.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Plan plan_of(int ranks) {
  Plan plan;
  plan.view = View(3);
  for (int r = 0; r < ranks; ++r) {
    plan.table.push_back({absl::StrCat("address ", r), View(1)});
    plan.holders.push_back({Rank((r + 1) % ranks)});
  }
  plan.sources.resize(static_cast<size_t>(ranks));
  plan.newest = Commit(40);
  plan.reasons = {"a reason"};
  return plan;
}

// Rank 2 is played by another process, which takes its window from rank 3.
Plan next_of(Plan plan) {
  plan.view = View(4);
  plan.table[2] = {"another address", View(4)};
  plan.holders[1] = {Rank(0)};
  plan.sources[2] = {Rank(3)};
  plan.rolled_back = {1};
  plan.rejoining = {Rank(3)};
  plan.stage_epochs = {View(1), View(4)};
  plan.membership = {{Step(10), {Rank(3)}, 3, "node 1 is lost"}};
  plan.state = Step(9);
  plan.window = Step(8);
  plan.incident = 7;
  return plan;
}

std::string bytes_of(const Plan& plan) { return encode({0, SendOrder{Rank(0), View(0), plan}}); }

TEST(PlanUpdate, WholeOrChangedItIsThePlanAgain) {
  const Plan before = plan_of(5), after = next_of(before);
  EXPECT_EQ(bytes_of(*apply_update(nullptr, update_of(nullptr, after))), bytes_of(after));
  EXPECT_EQ(bytes_of(*apply_update(&before, update_of(&before, after))), bytes_of(after));
  EXPECT_EQ(bytes_of(*apply_update(&before, update_of(nullptr, after))), bytes_of(after))
      << "a whole one needs no base";
}

TEST(PlanUpdate, NamesOnlyWhatDiffers) {
  const Plan before = plan_of(5);
  const PlanUpdate update = update_of(&before, next_of(before));
  EXPECT_EQ(update.base, View(3));
  EXPECT_THAT(update.table.ranks, ElementsAre(Rank(2)));
  EXPECT_THAT(update.holders.ranks, ElementsAre(Rank(1)));
  EXPECT_THAT(update.sources.ranks, ElementsAre(Rank(2)));
}

TEST(PlanUpdate, ListsMayGrowShrinkAndEmpty) {
  Plan shorter = next_of(plan_of(3));
  shorter.view = View(5);
  shorter.holders.clear();
  const Plan longer = plan_of(5);
  EXPECT_EQ(bytes_of(*apply_update(&longer, update_of(&longer, shorter))), bytes_of(shorter));
  EXPECT_EQ(bytes_of(*apply_update(&shorter, update_of(&shorter, longer))), bytes_of(longer));
}

TEST(PlanUpdate, AnotherBaseIsRefused) {
  const Plan before = plan_of(5);
  const PlanUpdate update = update_of(&before, next_of(before));
  EXPECT_THAT(apply_update(nullptr, update).status().message(),
              HasSubstr("changes that of view 3, not that of view 0"));
  const Plan other = next_of(before);
  EXPECT_TRUE(absl::IsDataLoss(apply_update(&other, update).status()));
}

TEST(PlanUpdate, RanksThatDoNotExistAreRefused) {
  PlanUpdate update = update_of(nullptr, plan_of(5));
  update.table.ranks[4] = Rank(5);
  EXPECT_TRUE(absl::IsDataLoss(apply_update(nullptr, update).status()));
  update.table.ranks[4] = Rank(4);
  update.table.entries.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(apply_update(nullptr, update).status()));
  update = update_of(nullptr, plan_of(5));
  update.sources.size = kPlanRanksMax + 1;
  EXPECT_TRUE(absl::IsDataLoss(apply_update(nullptr, update).status()));
}

}  // namespace
}  // namespace evermoe
