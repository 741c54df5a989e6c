// What a role table knows without a look at all roles, compared with such a look.
#include "control/controller/role_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace evermoe {
namespace {

using Phase = RoleState::Phase;

class RandomRoles : public testing::TestWithParam<uint32_t> {
 protected:
  static constexpr int kRoles = 5;

  int draw(int below) { return static_cast<int>(draws_() % static_cast<uint32_t>(below)); }
  absl::Duration later() { return absl::Seconds(draw(4)); }
  void change(Rank rank) {
    switch (draw(9)) {
      case 0: return roles_.start(rank, Node(0), View(1), later());
      case 1: return roles_.lose(rank);
      case 2: return roles_.end(rank);
      case 3: return roles_.ask(rank, later());
      case 4: return roles_.extend(rank, later());
      case 5: return roles_.note_report({.rank = rank});
      case 6: roles_[rank].finished = true; return;
      case 7:
        if (draw(60) == 0) roles_.release_all();
        return;
      default: return roles_.join({.rank = rank, .since = View(1)}, absl::ZeroDuration());
    }
  }
  void drive_to(Phase phase) {
    for (int32_t r = 0; r < kRoles; ++r) {
      if (phase == Phase::kNone) roles_.lose(Rank(r));
      if (phase == Phase::kJoined) roles_.join({.rank = Rank(r)}, absl::ZeroDuration());
    }
  }
  template <typename Is>
  bool all(const Is& is) const {
    return std::all_of(roles_.all().begin(), roles_.all().end(), is);
  }
  void compare() {
    absl::Duration next = absl::InfiniteDuration();
    std::set<Rank> without_process;
    for (int32_t r = 0; r < kRoles; ++r) {
      next = std::min(next, roles_[Rank(r)].deadline());
      if (roles_[Rank(r)].phase() == Phase::kNone) without_process.insert(Rank(r));
    }
    const auto is_joined = [](const RoleState& role) { return role.phase() == Phase::kJoined; };
    EXPECT_EQ(roles_.next_deadline(), next);
    EXPECT_EQ(roles_.without_process(), without_process);
    EXPECT_EQ(roles_.are_all_gone(), without_process.size() == kRoles);
    EXPECT_EQ(roles_.are_all_joined(), all(is_joined));
    EXPECT_EQ(roles_.have_all_reported(),
              all([&](const RoleState& role) { return is_joined(role) && role.report; }));
    EXPECT_EQ(roles_.have_all_finished(), !roles_.is_released() && all([&](const RoleState& role) {
                return is_joined(role) && role.finished;
              }));
  }

  RoleTable roles_{kRoles};
  std::mt19937 draws_{GetParam()};
};

TEST_P(RandomRoles, AreAsALookAtAllOfThemFindsThem) {
  compare();
  for (int change_number = 0; change_number < 500 && !HasFailure(); ++change_number) {
    if (draw(50) == 0) drive_to(draw(2) == 0 ? Phase::kNone : Phase::kJoined);
    change(Rank(draw(kRoles)));
    compare();
  }
}

// It had been asked for a report when it heard of its release.
TEST(RoleTableTest, OneThatHasEndedIsNotAwaited) {
  RoleTable roles(1);
  roles.join({.rank = Rank(0)}, absl::ZeroDuration());
  roles.ask(Rank(0), absl::Seconds(1));
  roles.end(Rank(0));
  EXPECT_EQ(roles.next_deadline(), absl::InfiniteDuration());
}

TEST_P(RandomRoles, AllReportAndFinishOneAfterTheOther) {
  drive_to(Phase::kJoined);
  std::vector<Rank> order;
  for (int32_t r = 0; r < kRoles; ++r) order.emplace_back(r);
  std::shuffle(order.begin(), order.end(), draws_);
  for (const Rank rank : order) {
    EXPECT_FALSE(roles_.have_all_reported() || roles_.have_all_finished());
    roles_.note_report({.rank = rank});
    roles_[rank].finished = true;
    compare();
  }
  EXPECT_TRUE(roles_.have_all_reported() && roles_.have_all_finished());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRoles, testing::Range(0u, 20u));

}  // namespace
}  // namespace evermoe
