// Which published checkpoints stay.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"

namespace evermoe {

struct RetentionRules {
  int64_t keep_newest = 2;       // at least one always stays
  int64_t keep_every_steps = 0;  // steps divisible by this stay for ever; 0: none
  int64_t keep_best = 1;         // by validation loss, the lower the better; the earlier of equals
  Step pinned{-1};               // this one stays while somebody may need it
};

struct RetainedCheckpoint {
  Step step;
  double validation_loss = -1;   // negative: none
  bool readable = true;          // its manifest is good, and what it needs is there
  std::vector<Step> needs = {};  // older ones in whose folders it has files
};

struct CheckpointRemoval {
  Step step;
  std::string reason;
};

// What to remove after `published` has been published, and why, newest first, so that nothing is
// removed before what needs it. A pure function. What another one needs which a rule keeps stays,
// too, and counts for no rule by that: it may lose what it needs itself. Checkpoints newer than
// `published` belong to a future that was abandoned (the run resumed from an older one): they are
// neither counted nor removed, publishing their step again replaces them; what they need stays.
// Unreadable ones count for no rule.
std::vector<CheckpointRemoval> checkpoints_to_remove(
    const RetentionRules& rules, std::span<const RetainedCheckpoint> checkpoints, Step published);

}  // namespace evermoe
