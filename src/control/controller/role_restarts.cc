#include "control/controller/role_restarts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace evermoe {

void RoleRestarts::on_start(absl::Duration now, Rank rank, Node node) {
  Role& role = at(rank);
  role.node = node;
  role.started = now;
  role.progress_at_start = progress_;
  role.is_replacement = role.progress_at_loss >= 0;
}

void RoleRestarts::on_loss(absl::Duration now, Rank rank, bool with_node) {
  Role& role = at(rank);
  role.losses = role.progress_at_loss == progress_ ? role.losses + 1 : 1;
  role.progress_at_loss = progress_;
  if (with_node) return;
  const bool has_settled = !role.is_replacement || now - role.started >= options_.settles_after;
  if (role.progress_at_start != progress_ && has_settled) {
    role.early_ends.clear();
    role.unreached.clear();
    role.early_in_row = 0;
    return;
  }
  ++role.early_ends[role.node];
  const int before = role.early_in_row++ - 1;
  if (before < 0) return;
  role.start_at =
      now + std::min(options_.backoff * (int64_t{1} << std::min(before, 30)), options_.backoff_max);
}

// Where it has to be started there again it is after pauses that grow, as if it had ended early.
void RoleRestarts::on_unreached(Rank rank) {
  Role& role = at(rank);
  role.unreached.insert(role.node);
  role.early_in_row = std::max(role.early_in_row, 1);
}

int RoleRestarts::losses(Rank rank) const {
  return at(rank).progress_at_loss == progress_ ? at(rank).losses : 0;
}

int RoleRestarts::early_ends(Rank rank, Node node) const {
  const auto found = at(rank).early_ends.find(node);
  return found == at(rank).early_ends.end() ? 0 : found->second;
}

bool RoleRestarts::keeps_ending_only(Rank rank, Node node) const {
  return keeps_ending(rank, node) &&
         std::ranges::none_of(at(rank).early_ends, [&](const auto& ends) {
           return ends.first != node && keeps_ending(rank, ends.first);
         });
}

bool RoleRestarts::does_any_keep_ending(Node node) const {
  for (size_t rank = 0; rank < roles_.size(); ++rank) {
    if (keeps_ending(Rank(static_cast<int32_t>(rank)), node)) return true;
  }
  return false;
}

bool RoleRestarts::is_avoided(Node node) const {
  for (size_t rank = 0; rank < roles_.size(); ++rank) {
    if (avoids(Rank(static_cast<int32_t>(rank)), node)) return true;
  }
  return false;
}

std::string RoleRestarts::reason(absl::Duration now, Rank rank) const {
  const Role& role = at(rank);
  if (!avoids(rank, role.node)) return "";
  const absl::Duration wait = role.start_at - now;
  const bool was_unreached = role.unreached.contains(role.node);
  return absl::StrCat(was_unreached ? "was not reached by others"
                                    : absl::StrCat("has ended ", early_ends(rank, role.node),
                                                   " times in a row soon after its start"),
                      " on node ", role.node.value,
                      wait > absl::ZeroDuration()
                          ? absl::StrCat("; the next start is in ", absl::FormatDuration(wait))
                          : "");
}

}  // namespace evermoe
