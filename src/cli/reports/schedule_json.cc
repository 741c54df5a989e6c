#include "cli/reports/schedule_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace evermoe {
namespace {

nlohmann::ordered_json as_json(const SimulatedShape& shape) {
  nlohmann::ordered_json json = {
      {"lanes", shape.lanes},
      {"nodes", shape.nodes},
      {"spares", shape.spares},
      {"copies", shape.copies},
      {"window", shape.window},
      {"window_every_steps", std::max(shape.period, shape.window)},
      {"strategy", to_string(shape.strategy)},
      {"steps", shape.model.steps},
      {"micro_batches", shape.model.micro_batches},
      {"evaluate_every", shape.model.evaluate_every},
      {"save_every", shape.model.save_every},
      {"has_store", shape.has_store},
      {"late_node", shape.late_node.value},
      {"late_seconds", absl::ToDoubleSeconds(shape.late)},
  };
  return json;
}

nlohmann::ordered_json as_json(const SimulatedFault& fault) {
  nlohmann::ordered_json json = {
      {"kind", kind_name(fault.kind)},
      {"rank", fault.rank.value},
      {"other", fault.other.value},
      {"node", fault.node.value},
      {"peer", fault.peer.value},
      {"with_agent", fault.with_agent},
      {"lasts_seconds", absl::ToDoubleSeconds(fault.lasts)},
      {"text", to_string(fault)},
  };
  if (fault.point.empty()) {
    json["at_seconds"] = absl::ToDoubleSeconds(fault.time);
    return json;
  }
  json["point"] = fault.point;
  json["passing"] = fault.passing;
  json["usual_passings"] = usual_passings(fault.point);
  return json;
}

}  // namespace

nlohmann::ordered_json as_json(uint64_t seed, const RandomSchedule& schedule) {
  nlohmann::ordered_json json = {{"seed", seed}, {"shape", as_json(schedule.shape)}};
  json["faults"] = nlohmann::ordered_json::array();
  for (const SimulatedFault& fault : schedule.faults) json["faults"].push_back(as_json(fault));
  return json;
}

}  // namespace evermoe
