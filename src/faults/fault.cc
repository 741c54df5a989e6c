#include "faults/fault.h"

#include "absl/strings/str_cat.h"
#include "faults/fault_points.h"

namespace evermoe {
namespace {

std::string shown(const FaultRole& role) {
  return absl::StrCat(" stage ", role.stage, " lane ", role.lane);
}

std::string shown(const FaultMoment& moment) {
  std::string text = absl::StrCat(" at ", moment.point);
  const bool or_later = is_beside_the_step(moment.point);
  if (moment.step)
    absl::StrAppend(&text, or_later ? " from step " : " of step ", moment.step->value);
  if (moment.recovery) absl::StrAppend(&text, " in recovery ", *moment.recovery);
  if (moment.reached > 0) absl::StrAppend(&text, " after ", moment.reached, " passings");
  return text;
}

}  // namespace

const char* to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::kKillWorker: return "kill_worker";
    case FaultKind::kKillNode: return "kill_node";
    case FaultKind::kStopWorker: return "stop_worker";
    case FaultKind::kCutConnection: return "cut_connection";
    case FaultKind::kCorruptCopy: return "corrupt_copy";
    case FaultKind::kCorruptState: return "corrupt_state";
    case FaultKind::kKillController: return "kill_controller";
    case FaultKind::kCorruptResult: return "corrupt_result";
    case FaultKind::kPoisonSamples: return "poison_samples";
    case FaultKind::kLoseNode: return "lose_node";
    case FaultKind::kReturnNode: return "return_node";
    case FaultKind::kAddNode: return "add_node";
    case FaultKind::kNoticeNode: return "notice_node";
    case FaultKind::kKillLeaver: return "kill_leaver";
    case FaultKind::kKillJoiner: return "kill_joiner";
    case FaultKind::kSlowWorker: return "slow_worker";
  }
  return "";
}

std::string to_string(const Fault& fault) {
  const bool is_controller = fault.kind == FaultKind::kKillController;
  std::string text(to_string(fault.kind));
  if (fault.kind == FaultKind::kPoisonSamples)
    return absl::StrCat(text, " tokens ", fault.tokens_begin, " to ", fault.tokens_end);
  const bool is_of_node = fault.kind == FaultKind::kKillNode || is_of_run(fault.kind);
  if (is_of_node) absl::StrAppend(&text, " ", fault.node);
  if (fault.kind == FaultKind::kNoticeNode)
    absl::StrAppend(&text, ", which is gone ", fault.seconds, " seconds later,");
  if (!is_of_node && !is_controller) absl::StrAppend(&text, shown(fault.role));
  if (fault.kind == FaultKind::kSlowWorker) absl::StrAppend(&text, " by ", fault.factor);
  if (fault.kind == FaultKind::kCutConnection) absl::StrAppend(&text, " to", shown(fault.other));
  if (is_controller && fault.moment) absl::StrAppend(&text, " with", shown(fault.role));
  if (fault.moment) return text + shown(*fault.moment);
  if (fault.after_step) return absl::StrCat(text, " after step ", fault.after_step->value);
  return absl::StrCat(text, " after ", fault.after_seconds.value_or(0), " seconds");
}

}  // namespace evermoe
