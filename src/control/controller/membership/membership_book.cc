#include "control/controller/membership/membership_book.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_join.h"

namespace evermoe {
namespace {

// A former controller may not have lived to tell; or it was another host's, which had lost the job
// before it knew, and whose run could not hand on what it had heard.
MembershipBook::News found_in(const Plan& plan) {
  MembershipBook::News news;
  news.base = MembershipChange{.step = plan.base,
                               .resting = resting_at(plan.membership, Step(0)),
                               .cause = "as it was found"};
  std::ranges::copy_if(plan.membership, std::back_inserter(news.changes),
                       [&](const MembershipChange& change) {
                         return change.step > plan.base && change.step <= plan.state &&
                                changes_at(plan.membership, change.step);
                       });
  return news;
}

bool is_among(const std::vector<MembershipChange>& changes, const MembershipChange& one) {
  return std::ranges::any_of(changes, [&](const MembershipChange& other) {
    return other.step == one.step && other.resting == one.resting;
  });
}

}  // namespace

std::string MembershipBook::cause() const { return absl::StrJoin(news_, ", "); }

MembershipBook::News MembershipBook::on_plan(const Plan& plan) {
  const bool is_first = !std::exchange(is_known_, true);
  const std::vector<MembershipChange> untold = std::exchange(planned_, {});
  if (!plan.restart_all) {
    std::vector<MembershipChange> held;
    for (const MembershipChange& change : plan.membership) {
      const bool changes = changes_at(plan.membership, change.step);
      if (change.step <= plan.state) {
        newest_change_ = std::max(newest_change_, change.step);
        if (changes && is_among(untold, change)) held.push_back(change);
      } else if (changes) {
        planned_.push_back(change);
      }
    }
    resting_ = resting_at(plan.membership, Step(plan.state.value + 1));
    if (is_first) return found_in(plan);
    if (!held.empty()) news_.clear();
    return {.base = std::nullopt, .changes = std::move(held)};
  }
  for (const MembershipChange& change : plan.membership) {
    if (change.step > Step(0)) planned_.push_back(change);
  }
  resting_ = resting_at(plan.membership, Step(0));
  newest_change_ = Step(-1);
  // By a script: what it says of later states is told when they are reached.
  if (!is_first && !planned_.empty()) return {};
  MembershipChange now{.step = Step(-1),
                       .resting = resting_,
                       .cause = is_first ? "the job begins" : "all go back to a checkpoint"};
  if (!plan.membership.empty() && plan.membership.front().step <= Step(0)) {
    now.nodes = plan.membership.front().nodes;
    if (!plan.membership.front().cause.empty()) now.cause = plan.membership.front().cause;
  }
  news_.clear();
  // Also if the same roles rest as before: who rested when the checkpoint was made is not known
  // here.
  return {.base = std::nullopt, .changes = {now}};
}

std::vector<MembershipChange> MembershipBook::on_commit(Step step) {
  std::vector<MembershipChange> held;
  while (!planned_.empty() && planned_.front().step <= step) {
    held.push_back(std::move(planned_.front()));
    planned_.erase(planned_.begin());
    resting_ = held.back().resting;
    newest_change_ = held.back().step;
    news_.clear();
  }
  return held;
}

}  // namespace evermoe
