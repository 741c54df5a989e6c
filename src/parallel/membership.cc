#include "parallel/membership.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace evermoe {
namespace {

// The first change after `step`.
MembershipHistory::const_iterator after(const MembershipHistory& history, Step step) {
  return std::ranges::upper_bound(history, step, {}, &MembershipChange::step);
}

bool contains(const RestingRoles& resting, Rank rank) {
  return std::ranges::binary_search(resting, rank);
}

Topology lanes_of(const Topology& roles, const RestingRoles& resting) {
  std::vector<int> lanes;
  for (int stage = 0; stage < roles.stages(); ++stage) {
    const std::vector<Rank> group = roles.stage_group(stage);
    lanes.push_back(static_cast<int>(
        std::ranges::count_if(group, [&](Rank rank) { return !contains(resting, rank); })));
  }
  return {std::move(lanes), roles.first_layer(roles.stages())};
}

}  // namespace

RestingRoles resting_at(const MembershipHistory& history, Step step) {
  const auto next = after(history, step);
  return next == history.begin() ? RestingRoles{} : std::prev(next)->resting;
}

View view_at(const MembershipHistory& history, Step step) {
  const auto next = after(history, step);
  return next == history.begin() ? View(0) : std::prev(next)->view;
}

bool changes_at(const MembershipHistory& history, Step step) {
  return resting_at(history, step) != resting_at(history, Step(step.value - 1));
}

bool changes_between(const MembershipHistory& history, Step from, Step to) {
  return std::ranges::any_of(history, [&](const MembershipChange& change) {
    return from < change.step && change.step <= to && changes_at(history, change.step);
  });
}

MembershipHistory since(MembershipHistory history, Step oldest) {
  const auto first = after(history, Step(0));  // who rests before that is known
  const auto next = after(history, oldest);
  if (first < next) history.erase(first, std::prev(next));
  return history;
}

int width_of(std::span<const int> widths, int lanes) {
  const auto next = std::ranges::upper_bound(widths, lanes);
  return next == widths.begin() ? lanes : *std::prev(next);
}

std::string problem_with(const RestingRoles& resting, const Topology& roles) {
  for (size_t i = 0; i < resting.size(); ++i) {
    const Rank rank = resting[i];
    if (rank < Rank(0) || rank.value >= roles.world_size())
      return absl::StrCat("role ", rank.value, " of ", roles.world_size(), " cannot rest");
    if (i > 0 && rank <= resting[i - 1]) return "the roles that rest are not in order";
    if (roles.role_of(rank).lane == 0)
      return absl::StrCat("role ", roles.name_of(rank), " cannot rest: it is its stage's first");
  }
  return "";
}

RestingRoles last_lanes_resting(const Topology& roles, std::span<const int> lanes) {
  CHECK(std::ssize(lanes) == roles.stages()) << lanes.size() << " stages";
  RestingRoles resting;
  for (int stage = 0; stage < roles.stages(); ++stage) {
    const int training = lanes[static_cast<size_t>(stage)];
    CHECK(training >= 1 && training <= roles.lanes(stage)) << training << " lanes";
    for (int lane = training; lane < roles.lanes(stage); ++lane)
      resting.push_back(roles.rank_of({stage, lane}));
  }
  return resting;
}

Membership::Membership(const Topology& roles, RestingRoles resting)
    : resting_(std::move(resting)), lanes_(lanes_of(roles, resting_)) {
  const std::string problem = problem_with(resting_, roles);
  CHECK(problem.empty()) << problem;
  for (int32_t r = 0; r < roles.world_size(); ++r) {
    if (!rests(Rank(r))) ranks_.push_back(Rank(r));
  }
}

bool Membership::rests(Rank rank) const { return contains(resting_, rank); }

std::optional<Role> Membership::place_of(Rank rank) const {
  if (rests(rank)) return std::nullopt;
  const auto place = std::ranges::lower_bound(ranks_, rank) - ranks_.begin();
  return lanes_.role_of(Rank(static_cast<int32_t>(place)));
}

std::vector<Rank> Membership::stage_group(int stage) const {
  std::vector<Rank> group;
  for (int lane = 0; lane < lanes_.lanes(stage); ++lane) group.push_back(rank_at({stage, lane}));
  return group;
}

}  // namespace evermoe
