#include "parallel/trained_lanes.h"

#include <utility>

namespace evermoe {

std::vector<int> widths_of(const Topology& lanes) {
  std::vector<int> widths;
  for (int stage = 0; stage < lanes.stages(); ++stage) widths.push_back(lanes.lanes(stage));
  return widths;
}

void note_step(Step from, const Topology& lanes, TrainedOn& trained_on) {
  std::vector<int> widths = widths_of(lanes);
  if (!trained_on.empty() && trained_on.back().lanes == widths) return;
  trained_on.push_back({from, std::move(widths)});
  if (trained_on.size() > kTrainedOnMax) trained_on.erase(trained_on.begin());
}

std::vector<int64_t> to_numbers(const TrainedOn& trained_on) {
  std::vector<int64_t> numbers;
  for (const TrainedLanes& one : trained_on) {
    numbers.push_back(one.step.value);
    numbers.push_back(std::ssize(one.lanes));
    numbers.insert(numbers.end(), one.lanes.begin(), one.lanes.end());
  }
  return numbers;
}

std::optional<TrainedOn> trained_on_from(std::span<const int64_t> numbers) {
  TrainedOn trained_on;
  while (!numbers.empty()) {
    const bool has_lanes =
        numbers.size() > 1 && numbers[1] > 0 && numbers[1] <= std::ssize(numbers) - 2;
    if (!has_lanes || trained_on.size() == kTrainedOnMax) return std::nullopt;
    const auto lanes = numbers.subspan(2, static_cast<size_t>(numbers[1]));
    trained_on.push_back({Step(numbers[0]), {lanes.begin(), lanes.end()}});
    numbers = numbers.subspan(2 + lanes.size());
  }
  return trained_on;
}

}  // namespace evermoe
