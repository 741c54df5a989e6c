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

std::string SilenceLimits::verdict(absl::Duration now, RoleState& role,
                                   const NodeTable& nodes) const {
  if (is_silent(now, role, nodes))
    return absl::StrCat("hung: no sign of life for ",
                        absl::FormatDuration(silence_limit(now, role)));
  if (now < role.deadline) return "";
  if (is_out_of_sight(now, role, nodes)) {
    role.deadline = now + options_.silence_max;
    return "";
  }
  if (const absl::Duration more = starved_time(role); more > absl::ZeroDuration()) {
    role.deadline += more;
    return "";
  }
  return role.phase == RoleState::Phase::kStarting ? "did not come up in time"
                                                   : "did not report in time";
}

// The line to its node may be broken or slow: only what its agent says, and it does not, tells of a
// worker.
bool SilenceLimits::is_silent(absl::Duration now, const RoleState& role,
                              const NodeTable& nodes) const {
  if (now < role.heard + options_.silence_max) return false;  // the rest is costly for all roles
  const auto agent = nodes.heard(role.node);
  return role.phase == RoleState::Phase::kJoined && agent &&
         *agent >= role.heard + silence_limit(now, role);
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
      late.phase == RoleState::Phase::kStarting ? options_.start_max : options_.report_max;
  return late.on_deadline.take(late.starvation.total(), limit);
}

bool is_out_of_sight(absl::Duration now, const RoleState& role, const NodeTable& nodes) {
  return role.phase == RoleState::Phase::kJoined && nodes.is_up(role.node) &&
         nodes.is_in_doubt(role.node, now);
}

bool are_all_out_of_sight(absl::Duration now, const RoleTable& roles, const NodeTable& nodes) {
  return std::ranges::all_of(
      roles.all(), [&](const RoleState& role) { return is_out_of_sight(now, role, nodes); });
}

}  // namespace evermoe
