#include "control/hosting/event_json.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "base/error.h"
#include "checkpoint/format/json_null.h"
#include "control/hosting/json_lists.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

constexpr struct {
  const char* what;
  absl::Duration MoveRecord::*at;
} kMoments[] = {{"asked", &MoveRecord::asked},
                {"processes warm", &MoveRecord::warm},
                {"copies given", &MoveRecord::copied},
                {"last commit", &MoveRecord::stopped},
                {"handed over", &MoveRecord::handed_over},
                {"planned", &MoveRecord::planned},
                {"restored", &MoveRecord::restored},
                {"next commit", &MoveRecord::resumed}};

Json timeline_json(const MoveRecord& record) {
  Json timeline = Json::array();
  for (const auto& [what, at] : kMoments) {
    if (record.*at < absl::InfiniteDuration())
      timeline.push_back({{"seconds", absl::ToDoubleSeconds(record.*at)}, {"what", what}});
  }
  return timeline;
}

absl::Status read_timeline(const nlohmann::json& timeline, MoveRecord& record) {
  for (const nlohmann::json& moment : timeline) {
    JsonFields fields(moment, "a moment");
    const std::string what = fields.text("what", kRecordTextBytesMax);
    const double seconds = fields.number("seconds");
    const auto known =
        std::ranges::find_if(kMoments, [&](const auto& one) { return one.what == what; });
    if (known == std::end(kMoments)) fields.problem("no moment of a move");
    RETURN_IF_ERROR(fields.status());
    record.*known->at = absl::Seconds(seconds);
  }
  return absl::OkStatus();
}

MoveRecord::State state_from(JsonFields& fields) {
  const std::string name = fields.text("state", kRecordTextBytesMax);
  for (int i = 0; i <= static_cast<int>(MoveRecord::State::kCalledOff); ++i) {
    const auto state = static_cast<MoveRecord::State>(i);
    if (name == to_string(state)) return state;
  }
  fields.problem("no state of a move");
  return {};
}

Json nodes_json(const std::vector<Node>& nodes) {
  Json list = Json::array();
  for (const Node node : nodes) list.push_back(node.value);
  return list;
}

std::vector<Node> nodes_from(JsonFields& fields, const char* key) {
  std::vector<Node> nodes;
  for (const int number : numbers(fields, key)) nodes.emplace_back(number);
  return nodes;
}

// -1 is null.
Step step_or_null(JsonFields& fields, const char* key) {
  return Step(fields.is_null(key) ? -1 : fields.integer(key, 0, INT64_MAX));
}

Node node_from(JsonFields& fields, const char* key) {
  return Node(static_cast<int32_t>(fields.integer(key, 0, INT32_MAX)));
}

}  // namespace

Json change_json(const LanesChanged& change) {
  return {{"step", change.step.value},
          {"nodes", change.nodes},
          {"lanes", change.lanes},
          {"cause", change.cause}};
}

absl::StatusOr<LanesChanged> change_from(const nlohmann::json& json) {
  JsonFields fields(json, "a change of lanes");
  LanesChanged change;
  change.step = Step(fields.integer("step", 0, INT64_MAX));
  change.nodes = static_cast<int32_t>(fields.integer("nodes", 0, INT32_MAX));
  change.lanes = numbers(fields, "lanes");
  change.cause = fields.text("cause", kRecordTextBytesMax);
  RETURN_IF_ERROR(fields.status());
  return change;
}

Json rebalance_json(const ExpertMove& move) {
  return {{"step", move.step.value},
          {"moved_bytes", move.moved_bytes},
          {"imbalance_before", move.imbalance_before},
          {"imbalance_after", move.imbalance_after},
          {"pause_seconds", move.pause_seconds}};
}

absl::StatusOr<ExpertMove> rebalance_from(const nlohmann::json& json) {
  JsonFields fields(json, "a rebalance");
  ExpertMove move;
  move.step = Step(fields.integer("step", 0, INT64_MAX));
  move.moved_bytes = fields.integer("moved_bytes", 0, INT64_MAX);
  move.imbalance_before = fields.number("imbalance_before");
  move.imbalance_after = fields.number("imbalance_after");
  move.pause_seconds = fields.number("pause_seconds");
  RETURN_IF_ERROR(fields.status());
  return move;
}

Json move_json(const MoveRecord& record) {
  return {{"roles", record.roles},
          {"from", nodes_json(record.from)},
          {"to", nodes_json(record.to)},
          {"cause", record.cause},
          {"state", to_string(record.state)},
          {"reason", record.reason},
          {"step", or_null(record.step)},
          {"pause_seconds", absl::ToDoubleSeconds(pause_of(record))},
          {"usual_step_seconds", absl::ToDoubleSeconds(record.usual_step)},
          {"bytes", record.bytes},
          {"connections_opened", record.connections_opened},
          {"timeline", timeline_json(record)}};
}

absl::StatusOr<MoveRecord> move_from(const nlohmann::json& json) {
  JsonFields fields(json, "a move");
  MoveRecord record;
  record.roles = texts(fields, "roles");
  record.from = nodes_from(fields, "from");
  record.to = nodes_from(fields, "to");
  if (record.from.size() != record.roles.size() || record.to.size() != record.roles.size())
    fields.problem("each role is to have a node before and one afterwards");
  record.cause = fields.text("cause", kRecordTextBytesMax);
  record.state = state_from(fields);
  record.reason = fields.text("reason", kRecordTextBytesMax);
  record.step = step_or_null(fields, "step");
  record.usual_step = absl::Seconds(fields.number("usual_step_seconds"));
  record.bytes = fields.integer("bytes", 0, INT64_MAX);
  record.connections_opened = fields.integer("connections_opened", 0, INT64_MAX);
  RETURN_IF_ERROR(read_timeline(fields.array("timeline"), record));
  RETURN_IF_ERROR(fields.status());
  return record;
}

Json straggler_json(const StragglerRecord& straggler) {
  return {{"role", straggler.role},
          {"node", straggler.node.value},
          {"factor", straggler.factor},
          {"step", straggler.step.value},
          {"until_step", or_null(straggler.until)}};
}

absl::StatusOr<StragglerRecord> straggler_from(const nlohmann::json& json) {
  JsonFields fields(json, "a straggler");
  StragglerRecord straggler;
  straggler.role = fields.text("role", kRecordTextBytesMax);
  straggler.node = node_from(fields, "node");
  straggler.factor = fields.number("factor");
  straggler.step = Step(fields.integer("step", 0, INT64_MAX));
  straggler.until = step_or_null(fields, "until_step");
  RETURN_IF_ERROR(fields.status());
  return straggler;
}

Json slow_link_json(const SlowLinkRecord& link) {
  return {{"from", link.from.value},
          {"to", link.to.value},
          {"factor", link.factor},
          {"step", link.step.value},
          {"until_step", or_null(link.until)}};
}

absl::StatusOr<SlowLinkRecord> slow_link_from(const nlohmann::json& json) {
  JsonFields fields(json, "a slow link");
  SlowLinkRecord link;
  link.from = node_from(fields, "from");
  link.to = node_from(fields, "to");
  link.factor = fields.number("factor");
  link.step = Step(fields.integer("step", 0, INT64_MAX));
  link.until = step_or_null(fields, "until_step");
  RETURN_IF_ERROR(fields.status());
  return link;
}

}  // namespace evermoe
