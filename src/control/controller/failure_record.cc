#include "control/controller/failure_record.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace evermoe {

std::string to_text(const FailureRecord& failure) {
  std::string text = failure.roles.empty()
                         ? "the job"
                         : absl::StrCat("worker ", absl::StrJoin(failure.roles, ", "));
  absl::StrAppend(&text, " at step ", failure.step.value, ": ", failure.kind);
  if (failure.recovery) return absl::StrCat(text, "; ", to_text(*failure.recovery));
  if (!failure.restarted_from_step) return text;
  absl::StrAppendFormat(&text, "; started again from step %d, %.1f s lost",
                        failure.restarted_from_step->value, failure.seconds_lost);
  return text;
}

std::string to_text(const LocalRecovery& recovery) {
  const std::vector<int>& stages = recovery.rolled_back_stages;
  std::string text = recovery.restarted_all ? "all started again"
                     : stages.empty()       ? "nothing was run again"
                                      : absl::StrCat(stages.size() == 1 ? "stage " : "stages ",
                                                     absl::StrJoin(stages, ", "), " ran ",
                                                     recovery.recomputed_steps, " steps again");
  if (!recovery.standby_roles.empty())
    absl::StrAppend(&text, ", ", absl::StrJoin(recovery.standby_roles, " and "),
                    " by a warm standby");
  if (!recovery.resume) return absl::StrCat(text, ", the job did not go on");
  absl::StrAppendFormat(&text, ", went on after %.2f s", *recovery.resume);
  return text;
}

}  // namespace evermoe
