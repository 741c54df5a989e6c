// What the durable store of a simulated job says of checkpoints with a few experts, and what a test
// wants to know of restarts from them.
//
// Threads: one at a time, as in a simulated job.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "protection/partial_experts/partial_saves.h"

namespace evermoe {

// A restart that lasted: from which step's state every operator of a rank went on.
struct PartialRestartPoint {
  Step at;
  std::map<std::pair<Rank, int>, Step> versions;  // by rank and operator
};

class PartialFiles {
 public:
  // What a rank says beside its file of a step.
  struct Part {
    std::vector<Step> saved_at;         // by operator: where its bytes are
    std::vector<StoredExpert> experts;  // of the stage, by layer and expert
    LossyKState k;
  };
  // False if everybody has gone back since the view in which this rank did: what it has is of a
  // past that was given up.
  bool may_write(View view) const { return view >= restarted_in_; }
  // REQUIRES: may_write() in its view.
  void write(Step step, Rank rank, Part part) { parts_[step][rank] = std::move(part); }
  const Part& at(Step step, Rank rank) const { return parts_.at(step).at(rank); }

  // In this view everybody goes back to the state at `step`: newer files are of a past that was
  // given up.
  void begin_restart(View view, Step step) {
    restarted_in_ = view;
    parts_.erase(parts_.upper_bound(step), parts_.end());
    std::erase_if(restarts_, [&](const auto& restart) { return restart.at >= step; });
    if (step > Step(0)) restarts_.push_back({.at = step});
  }
  void note_version(Rank rank, int operator_index, Step version) {
    if (!restarts_.empty()) restarts_.back().versions[{rank, operator_index}] = version;
  }
  // The newest word of a rank of what restarts have cost, in tokens.
  void note_lost(Rank rank, int64_t tokens) { lost_[rank] = tokens; }

  const std::vector<PartialRestartPoint>& restarts() const { return restarts_; }
  int64_t lost() const {
    int64_t total = 0;
    for (const auto& [rank, tokens] : lost_) total += tokens;
    return total;
  }

 private:
  std::map<Step, std::map<Rank, Part>> parts_;
  std::vector<PartialRestartPoint> restarts_;
  std::map<Rank, int64_t> lost_;
  View restarted_in_{0};
};

}  // namespace evermoe
