// How far the times of steps depend on how much there was to compute in them. Pure.
#pragma once

#include <span>
#include <vector>

namespace evermoe {

// Of one role in one step, to others of its kind: logarithms of ratios.
struct WorkAndTime {
  double work = 0;
  double time = 0;
};

// Times grow like work to the power of something between these: 0 where other costs are all there
// is, 1 where there are none.
struct WorkDependence {
  double least = 0, most = 1;
  // The part of a time ratio that work does not explain, for whoever has so much work: the smaller
  // one of what is possible.
  double without_work(const WorkAndTime& one, double usual_work) const {
    return one.time - (usual_work > 0 ? most : least) * one.work;
  }
};

// From how the times of each role change with its work from step to step, as far as noise allows to
// say: three errors to either side, within 0 and 1. That some role is slower than others, or has
// become so, does not matter.
WorkDependence work_dependence(std::span<const std::vector<WorkAndTime>> by_role);

}  // namespace evermoe
