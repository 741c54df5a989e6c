#include "sim/lanes/told_lanes.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "parallel/trained_lanes.h"

namespace evermoe {

std::string lanes_text(const Topology& topology, const std::vector<LanesChanged>& told,
                       Step steps) {
  std::vector<int> lanes = widths_of(topology);
  std::string text = absl::StrCat("0:", absl::StrJoin(lanes, ","));
  for (const LanesChanged& change : told) {
    // After the last step nobody trains.
    if (change.lanes == lanes || change.step >= steps) continue;
    lanes = change.lanes;
    absl::StrAppend(&text, "|", change.step.value, ":", absl::StrJoin(lanes, ","));
  }
  return text;
}

std::string lanes_text(const Topology& topology, const MembershipHistory& trained, Step steps) {
  std::vector<LanesChanged> changes;
  for (const MembershipChange& change : trained)
    changes.push_back(
        {.step = change.step, .lanes = widths_of(Membership(topology, change.resting).lanes())});
  return lanes_text(topology, changes, steps);
}

}  // namespace evermoe
