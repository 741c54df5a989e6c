// For benchmarks: what a change of one process costs beside connecting all anew, round by round.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace evermoe {

// From a new table of peers to the end of the step after it, on the last rank.
struct ChangeCost {
  int64_t connections = 0;
  double ms = 0;
};

struct ChangeRound {
  ChangeCost step;      // nothing has changed
  ChangeCost change;    // another process plays one rank
  ChangeCost prepared;  // likewise, one that has connected with the others beforehand
  ChangeCost rebuild;   // everybody connects anew
};

// Median, least and greatest.
template <typename Figure>
nlohmann::ordered_json spread_of(const std::vector<ChangeRound>& rounds, Figure figure) {
  std::vector<double> values;
  for (const ChangeRound& round : rounds) values.push_back(static_cast<double>(figure(round)));
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

// Ratios are of the same round: rebuild / change.
inline nlohmann::ordered_json report_of(const std::vector<ChangeRound>& rounds) {
  const auto spread = [&](auto figure) { return spread_of(rounds, figure); };
  using Round = const ChangeRound&;
  return {{"columns", {"median", "least", "greatest"}},
          {"step_ms", spread([](Round round) { return round.step.ms; })},
          {"change_connections", spread([](Round round) { return round.change.connections; })},
          {"change_ms", spread([](Round round) { return round.change.ms; })},
          {"change_ms_beyond_a_step",
           spread([](Round round) { return round.change.ms - round.step.ms; })},
          {"prepared_connections", spread([](Round round) { return round.prepared.connections; })},
          {"prepared_ms", spread([](Round round) { return round.prepared.ms; })},
          {"prepared_ms_beyond_a_step",
           spread([](Round round) { return round.prepared.ms - round.step.ms; })},
          {"rebuild_connections", spread([](Round round) { return round.rebuild.connections; })},
          {"rebuild_ms", spread([](Round round) { return round.rebuild.ms; })},
          {"rebuild_ms_beyond_a_step",
           spread([](Round round) { return round.rebuild.ms - round.step.ms; })},
          {"ratio_of_connections", spread([](Round round) {
             return static_cast<double>(round.rebuild.connections) /
                    static_cast<double>(round.change.connections);
           })},
          {"ratio_of_ms", spread([](Round round) { return round.rebuild.ms / round.change.ms; })},
          {"ratio_of_ms_prepared",
           spread([](Round round) { return round.rebuild.ms / round.prepared.ms; })}};
}

}  // namespace evermoe
