#include "control/launch/move_summary.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

bool has_come(absl::Duration moment) { return moment < absl::InfiniteDuration(); }

Json timeline_json(const MoveRecord& record) {
  const std::pair<const char*, absl::Duration> moments[] = {{"asked", record.asked},
                                                            {"processes warm", record.warm},
                                                            {"copies given", record.copied},
                                                            {"last commit", record.stopped},
                                                            {"handed over", record.handed_over},
                                                            {"planned", record.planned},
                                                            {"restored", record.restored},
                                                            {"next commit", record.resumed}};
  Json timeline = Json::array();
  for (const auto& [what, moment] : moments) {
    if (has_come(moment))
      timeline.push_back({{"seconds", absl::ToDoubleSeconds(moment)}, {"what", what}});
  }
  return timeline;
}

Json numbers_of(const std::vector<Node>& nodes) {
  Json numbers = Json::array();
  for (const Node node : nodes) numbers.push_back(node.value);
  return numbers;
}

}  // namespace

MoveRecord since(absl::Duration began, MoveRecord record) {
  for (absl::Duration* moment :
       {&record.asked, &record.warm, &record.copied, &record.stopped, &record.handed_over,
        &record.planned, &record.restored, &record.resumed}) {
    *moment -= began;
  }
  return record;
}

absl::Duration pause_of(const MoveRecord& record) {
  if (!has_come(record.stopped) || !has_come(record.resumed)) return absl::ZeroDuration();
  return std::max(absl::ZeroDuration(), record.resumed - record.stopped - record.usual_step);
}

Json move_json(const MoveRecord& record) {
  Json json;
  json["roles"] = record.roles;
  json["from"] = numbers_of(record.from);
  json["to"] = numbers_of(record.to);
  json["cause"] = record.cause;
  json["state"] = to_string(record.state);
  json["reason"] = record.reason;
  json["step"] = record.step < Step(0) ? Json() : Json(record.step.value);
  json["pause_seconds"] = absl::ToDoubleSeconds(pause_of(record));
  json["usual_step_seconds"] = absl::ToDoubleSeconds(record.usual_step);
  json["bytes"] = record.bytes;
  json["connections_opened"] = record.connections_opened;
  json["timeline"] = timeline_json(record);
  return json;
}

std::string to_text(const MoveRecord& record) {
  std::string text;
  for (size_t i = 0; i < record.roles.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", record.roles[i], " from node ", record.from[i].value,
                    " to node ", record.to[i].value);
  }
  if (record.state != MoveRecord::State::kDone) {
    return absl::StrCat(text, ": ", to_string(record.state), record.reason.empty() ? "" : ", ",
                        record.reason);
  }
  return absl::StrFormat("%s at step %d: the job stood for %.2f s, %.1f MB", text,
                         record.step.value, absl::ToDoubleSeconds(pause_of(record)),
                         static_cast<double>(record.bytes) / 1e6);
}

}  // namespace evermoe
