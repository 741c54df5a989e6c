#include "control/controller/stragglers/work_dependence.h"

#include <algorithm>
#include <cmath>

#include "control/controller/stragglers/robust_statistics.h"

namespace evermoe {
namespace {

constexpr double kErrors = 3;
// What is further from the middle is a step in which something else has happened.
constexpr double kSpreadsMost = 3;

struct Sums {
  double squares = 0;   // of work
  double products = 0;  // of work and time
  std::vector<WorkAndTime> changes;
};

// Neighbouring steps are compared: between most of them nothing else has changed.
void add(const std::vector<WorkAndTime>& role, Sums& sums) {
  std::vector<WorkAndTime> changes;
  std::vector<double> times;
  for (size_t i = 1; i < role.size(); ++i) {
    changes.push_back({role[i].work - role[i - 1].work, role[i].time - role[i - 1].time});
    times.push_back(changes.back().time);
  }
  if (changes.empty()) return;
  const double middle = median(times), most = kSpreadsMost * spread(times);
  for (WorkAndTime& one : changes) {
    one.time = std::clamp(one.time, middle - most, middle + most);
    sums.squares += one.work * one.work;
    sums.products += one.work * one.time;
    sums.changes.push_back(one);
  }
}

}  // namespace

WorkDependence work_dependence(std::span<const std::vector<WorkAndTime>> by_role) {
  Sums sums;
  for (const std::vector<WorkAndTime>& role : by_role) add(role, sums);
  if (sums.squares <= 0) return {};
  const double power = sums.products / sums.squares;
  std::vector<double> rest;
  for (const WorkAndTime& one : sums.changes) rest.push_back(one.time - power * one.work);
  const double error = spread(rest) / std::sqrt(sums.squares);
  return {std::clamp(power - kErrors * error, 0.0, 1.0),
          std::clamp(power + kErrors * error, 0.0, 1.0)};
}

}  // namespace evermoe
