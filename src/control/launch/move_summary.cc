#include "control/launch/move_summary.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace evermoe {

MoveRecord since(absl::Duration began, MoveRecord record) {
  for (absl::Duration* moment :
       {&record.asked, &record.warm, &record.copied, &record.stopped, &record.handed_over,
        &record.planned, &record.restored, &record.resumed}) {
    *moment -= began;
  }
  return record;
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
