#include "control/wire/incident_lines.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {

std::optional<std::string> IncidentLines::on_stop(const StopOrder& stop) {
  if (stop.incident == 0) return std::nullopt;
  const std::pair<View, int64_t> what{stop.view, stop.incident};
  if (std::exchange(stopped_, what) == what) return std::nullopt;
  return in_incident(stop.incident, absl::StrCat("stop for view ", stop.view.value));
}

std::optional<std::string> IncidentLines::on_plan(const Plan& plan) {
  if (plan.incident == 0) return std::nullopt;
  std::string text = absl::StrCat("view ", plan.view.value, " opens");
  if (!plan.reasons.empty()) absl::StrAppend(&text, ": ", absl::StrJoin(plan.reasons, "; "));
  return in_incident(plan.incident, text);
}

std::optional<std::string> IncidentLines::on_order(const ControllerMessage& order) {
  if (const auto* const stop = std::get_if<StopOrder>(&order)) return on_stop(*stop);
  if (const auto* const plan = std::get_if<Plan>(&order)) return on_plan(*plan);
  return std::nullopt;
}

std::optional<std::string> IncidentLines::on_envelope(const ControlMessage& message) {
  if (const auto* const order = std::get_if<SendOrder>(&message)) return on_order(order->message);
  if (const auto* const update = std::get_if<PlanUpdate>(&message)) return on_plan(update->rest);
  const auto* const start = std::get_if<StartWorker>(&message);
  if (start == nullptr || start->incident == 0) return std::nullopt;
  return in_incident(start->incident,
                     absl::StrCat("the worker of rank ", start->rank.value, " starts here"));
}

}  // namespace evermoe
