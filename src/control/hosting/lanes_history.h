// On which lanes a job has trained from which state on, as its run hears of it: a job with the same
// configuration that follows it has the same bits (elastic.history). Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/ids.h"
#include "control/controller/controller_interface.h"
#include "parallel/trained_lanes.h"

namespace evermoe {

class LanesHistory {
 public:
  LanesHistory() = default;
  // What the hosts before this one have seen.
  explicit LanesHistory(std::vector<LanesChanged> former) : changes_(std::move(former)) {}

  // One that holds, which two controllers may tell of; or, Step(-1), one that will from where all
  // go on. `is_base`: what others have told of it and since was not of these members, unless they
  // trained on such lanes then. True: changes() is another.
  bool on_change(LanesChanged change);
  // All go on from the durable state at `step`: what was after it has not been. `trained_on`: what
  // the checkpoint knows of the states before, if it does. Every rank says so. True: likewise.
  bool on_resumed(Step step, const TrainedOn& trained_on = {});

  const std::vector<LanesChanged>& changes() const { return changes_; }  // oldest first

 private:
  bool is_in_force(const LanesChanged& change) const;
  void take(const TrainedOn& trained_on);

  std::vector<LanesChanged> changes_;
  std::optional<LanesChanged> next_;  // from where all go on, once that is known
};

}  // namespace evermoe
