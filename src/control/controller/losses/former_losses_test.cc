// Losses of which a former controller did not live to tell: roles 0 and 1, views up to 4 are its.
#include "control/controller/losses/former_losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Former : public testing::Test {
 protected:
  // Its process was started in `since` and has played in the view `epoch`; 0: in none.
  void joins(int32_t rank, View since, View epoch) {
    roles_.join({.rank = Rank(rank), .since = since}, absl::ZeroDuration());
    roles_[Rank(rank)].report = Report{.stage_epoch = epoch};
  }
  RoleTable roles_{2};
  FormerLosses losses_{View(4)};
};

TEST_F(Former, WhoIsNotThereIsLost) {
  EXPECT_THAT(absent_roles(roles_), ElementsAre(Rank(0), Rank(1)));
  joins(0, View(1), View(1));
  EXPECT_THAT(absent_roles(roles_), ElementsAre(Rank(1)));
}

TEST_F(Former, WhoHasNotPlayedYetReplacesSomebody) {
  joins(0, View(1), View(1));
  joins(1, View(4), View(0));
  EXPECT_THAT(losses_.take_replaced(roles_, Commit(5), false), ElementsAre(Rank(1)));
  EXPECT_THAT(losses_.take_replaced(roles_, Commit(5), false), IsEmpty()) << "once";
}

TEST_F(Former, BeforeTheFirstCommitNobodyHasPlayed) {
  joins(0, View(1), View(0));
  joins(1, View(1), View(0));
  EXPECT_THAT(losses_.take_replaced(roles_, Commit(-1), false), IsEmpty());
}

TEST_F(Former, OfItsOwnReplacementsAControllerHasToldInTheIncident) {
  joins(0, View(4), View(0));
  joins(1, View(5), View(0));
  EXPECT_THAT(losses_.take_replaced(roles_, Commit(5), true), ElementsAre(Rank(0)));
}

}  // namespace
}  // namespace evermoe
