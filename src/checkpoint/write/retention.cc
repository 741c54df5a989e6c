#include "checkpoint/write/retention.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

using Candidates = std::vector<RetainedCheckpoint>;

void keep_first(const Candidates& sorted, int64_t count, std::set<Step>& kept) {
  for (const RetainedCheckpoint& checkpoint : sorted) {
    if (count-- <= 0) return;
    kept.insert(checkpoint.step);
  }
}

// With what these and those newer than `published` need. Not what that needs in turn: experts that
// take turns would keep every checkpoint for ever.
std::set<Step> with_needed(std::span<const RetainedCheckpoint> checkpoints, Step published,
                           const std::set<Step>& chosen) {
  std::set<Step> kept = chosen;
  for (const RetainedCheckpoint& checkpoint : checkpoints) {
    const bool stays = checkpoint.step > published || chosen.contains(checkpoint.step);
    if (stays) kept.insert(checkpoint.needs.begin(), checkpoint.needs.end());
  }
  return kept;
}

}  // namespace

std::vector<CheckpointRemoval> checkpoints_to_remove(
    const RetentionRules& rules, std::span<const RetainedCheckpoint> checkpoints, Step published) {
  Candidates readable;
  for (const RetainedCheckpoint& checkpoint : checkpoints) {
    if (checkpoint.readable && checkpoint.step <= published) readable.push_back(checkpoint);
  }
  std::set<Step> kept = {published, rules.pinned};
  std::sort(readable.begin(), readable.end(), [](auto& a, auto& b) { return a.step > b.step; });
  keep_first(readable, rules.keep_newest, kept);
  for (const RetainedCheckpoint& checkpoint : readable) {
    const bool milestone =
        rules.keep_every_steps > 0 && checkpoint.step.value % rules.keep_every_steps == 0;
    if (milestone) kept.insert(checkpoint.step);
  }
  std::erase_if(readable, [](const auto& checkpoint) { return checkpoint.validation_loss < 0; });
  std::sort(readable.begin(), readable.end(), [](const auto& a, const auto& b) {
    return std::pair(a.validation_loss, a.step) < std::pair(b.validation_loss, b.step);
  });
  keep_first(readable, rules.keep_best, kept);

  Candidates newest_first(checkpoints.begin(), checkpoints.end());
  std::sort(newest_first.begin(), newest_first.end(),
            [](auto& a, auto& b) { return a.step > b.step; });
  kept = with_needed(checkpoints, published, kept);
  std::vector<CheckpointRemoval> removals;
  for (const RetainedCheckpoint& checkpoint : newest_first) {
    if (checkpoint.step > published || kept.contains(checkpoint.step)) continue;
    removals.push_back(
        {checkpoint.step,
         checkpoint.readable
             ? absl::StrCat("not among the newest ", rules.keep_newest, ", the best ",
                            rules.keep_best, " or the milestones, and needed by none of these")
             : "it cannot be read"});
  }
  return removals;
}

}  // namespace evermoe
