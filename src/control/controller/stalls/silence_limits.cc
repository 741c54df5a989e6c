#include "control/controller/stalls/silence_limits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace evermoe {

void SilenceLimits::note(absl::Duration now, Node node, absl::Duration late) {
  of_nodes_.try_emplace(node, options_.own_standstill).first->second.note(now, late);
}

absl::Duration SilenceLimits::allowance(absl::Duration now, Node node, absl::Duration limit) const {
  const absl::Duration own = own_.allowance(now, limit);
  const auto of_node = of_nodes_.find(node);
  if (of_node == of_nodes_.end()) return own;
  return std::max(own, of_node->second.allowance(now, limit));
}

// Who is heard, or joins, after a look is silent later than all who were heard until then.
std::vector<Rank> SilenceLimits::due(absl::Duration now, const RoleTable& roles) {
  if (now < std::min(nobody_silent_before_, roles.next_deadline())) return {};
  std::vector<Rank> due;
  absl::Duration longest_unheard = now;
  for (int32_t r = 0; r < roles.size(); ++r) {
    const RoleState& role = roles[Rank(r)];
    if (now >= role.deadline() || may_be_silent(now, role)) due.emplace_back(r);
    if (role.phase() == RoleState::Phase::kJoined)
      longest_unheard = std::min(longest_unheard, role.heard);
  }
  nobody_silent_before_ = longest_unheard + options_.silence_max;
  return due;
}

std::string SilenceLimits::verdict(absl::Duration now, Rank rank, RoleTable& roles,
                                   const NodeTable& nodes) const {
  RoleState& role = roles[rank];
  if (is_silent(now, role, nodes))
    return absl::StrCat("hung: no sign of life for ",
                        absl::FormatDuration(silence_limit(now, role)));
  if (now < role.deadline()) return "";
  if (is_out_of_sight(now, role, nodes)) {
    roles.extend(rank, now + options_.silence_max);
    return "";
  }
  if (const absl::Duration more = starved_time(role); more > absl::ZeroDuration()) {
    roles.extend(rank, role.deadline() + more);
    return "";
  }
  return role.phase() == RoleState::Phase::kStarting ? "did not come up in time"
                                                     : "did not report in time";
}

// The line to its node may be broken or slow: only what its agent says, and it does not, tells of a
// worker.
bool SilenceLimits::is_silent(absl::Duration now, const RoleState& role,
                              const NodeTable& nodes) const {
  if (!may_be_silent(now, role)) return false;
  const auto agent = nodes.heard(role.node);
  return agent && *agent >= role.heard + silence_limit(now, role);
}

absl::Duration SilenceLimits::silence_limit(absl::Duration now, const RoleState& role) const {
  const absl::Duration limit = options_.silence_max;
  const absl::Duration starved = role.starvation.total() - role.starved_when_heard;
  const absl::Duration more = allowance(now, role.node, limit) + starved;
  return limit + absl::Trunc(std::min(more, (kStallFactorMax - 1) * limit), absl::Milliseconds(1));
}

// What it could not use of its time to join or to report; it is granted now.
absl::Duration SilenceLimits::starved_time(RoleState& late) const {
  const absl::Duration limit =
      late.phase() == RoleState::Phase::kStarting ? options_.start_max : options_.report_max;
  return late.on_deadline.take(late.starvation.total(), limit);
}

bool is_out_of_sight(absl::Duration now, const RoleState& role, const NodeTable& nodes) {
  return role.phase() == RoleState::Phase::kJoined && nodes.is_up(role.node) &&
         nodes.is_in_doubt(role.node, now);
}

bool are_all_out_of_sight(absl::Duration now, const RoleTable& roles, const NodeTable& nodes) {
  return std::ranges::all_of(
      roles.all(), [&](const RoleState& role) { return is_out_of_sight(now, role, nodes); });
}

}  // namespace evermoe
