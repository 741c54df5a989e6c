// Which roles compute slower than others of their kind: stragglers, for whom all others wait in
// every step (docs/stragglers.md).
//
// Each role says how long it computed in each step, apart from waiting (recovery/protocol/
// step_time.h), so that a slow link, which makes everybody wait, names nobody (slow_link_watch.h
// does). The lanes of a stage
// do the same at the same time: step by step each is compared with the median of the others. A lane
// whose experts are chosen more often has more to do, and is no straggler: what its work explains
// is left out, as far as the times have followed the work in the steps before (work_dependence.h).
//
// A stage of one lane has nobody of its kind. Its role is compared with itself: with how long it
// took before, as far as all others like it have not changed likewise. So one that was slow from
// the beginning is not found there.
//
// A role is a straggler when its median ratio over the last `for_steps` steps is at least
// `slower_than`, nearer to that than to 1 in either half of them, and so far above 1 that noise
// does not explain it: by six times the error of that median, which the spread of the ratios says.
// Where they spread widely more steps decide, up to five times as many. It is none any more when
// the median is nearer to 1 than to the limit, and noise does not explain that. What makes no step
// longer by a fiftieth of it is none: where next to nothing is computed ratios mean nothing.
//
// Pure. Threads: one at a time.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/ids.h"
#include "control/controller/controller_interface.h"
#include "control/controller/stragglers/work_dependence.h"
#include "parallel/topology.h"
#include "recovery/protocol/step_time.h"

namespace evermoe {

class StragglerWatch {
 public:
  // The topology outlives it.
  StragglerWatch(const Topology& topology, StragglerOptions options);

  // Oldest first, of the process that has played the role since that view.
  void note(Rank rank, View since, const std::vector<StepTime>& times);

  // The role has no process any more, or another one.
  void forget(Rank rank) { watched_.erase(rank); }

  struct Finding {
    Rank rank;
    bool is_slow = false;  // false: it was, and is no more
    double factor = 1;     // the median ratio
    Step step;             // the newest one that was compared
  };
  // What has become of roles since the last call; `step`: how long one takes now.
  std::vector<Finding> look(absl::Duration step);

  struct Slowness {
    double factor = 1;
    absl::Duration excess;  // what a step takes longer for it, at most
  };
  // Of a role that is one now.
  std::optional<Slowness> slowness(Rank rank) const;

 private:
  struct Watched {
    View since;
    std::deque<StepTime> times;      // ascending steps that are not compared yet
    std::deque<WorkAndTime> ratios;  // to the median of the others, oldest first
    WorkDependence dependence;
    Step newest_compared;
    // Of a lone lane: its times while it was no straggler, and what is usual of them.
    std::deque<double> past;
    std::optional<double> usual;
    std::optional<Slowness> slowness;
    std::optional<Step> newest;     // that it has told of
    std::deque<double> recent;      // seconds, of the last for_steps that were compared
    bool is_compared_anew = false;  // since the last look
  };
  using Group = std::vector<std::pair<Rank, Watched*>>;
  Group present_lanes(int stage);
  // What they did in the steps that all of them have told of and that were not compared yet; false:
  // there is none.
  bool compare(const Group& group, bool is_lone);
  void compare_step(const Group& group, bool is_lone);
  void learn_dependence(const Group& group) const;
  std::vector<double> ratios_without_work(const Watched& watched) const;
  bool take_usual(Watched& watched) const;
  void judge(Rank rank, Watched& watched, absl::Duration step,
             std::vector<Finding>& findings) const;
  size_t kept() const;

  const Topology& topology_;
  const StragglerOptions options_;
  std::map<Rank, Watched> watched_;
  bool has_news_ = false;
};

}  // namespace evermoe
