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

  // What a controller tells; two may tell the same. True: changes() is another. Usually so many
  // lanes have trained from change.step on, and whatever was known from there on has not been. But
  //  * Step(-1): so many will, from where all go on, which on_resumed() says;
  //  * is_base: a new controller has found its members train like this. Nothing new if they have by
  //    what is known; else that was not of these members.
  bool on_change(LanesChanged change);
  // All go on from the durable state at `step`, as every rank says, and as in follow_checkpoint().
  // True: likewise.
  bool on_resumed(Step step, const TrainedOn& trained_on = {});
  // The state at `step` is what there is: what was after it has not been. `trained_on`: what its
  // checkpoint knows of the states before, if it does.
  void follow_checkpoint(Step step, const TrainedOn& trained_on);

  const std::vector<LanesChanged>& changes() const { return changes_; }  // oldest first

 private:
  bool is_in_force(const LanesChanged& change) const;
  void take(const TrainedOn& trained_on);

  std::vector<LanesChanged> changes_;
  std::optional<LanesChanged> next_;  // from where all go on, once that is known
};

}  // namespace evermoe
