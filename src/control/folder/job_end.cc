#include "control/folder/job_end.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/exit_codes.h"
#include "recovery/member/restore/witnesses.h"

namespace evermoe {

absl::Status mark_end(Files& files, const std::string& folder, const FolderTerm& term,
                      const EndJob& end) {
  const std::string how = !end.ok ? end.reason : end.is_drained ? kJobDrained : kJobFinished;
  return mark_job_ended(files, folder, term, how);
}

EndJob end_that(const std::string& how) {
  const bool is_drained = how == kJobDrained;
  return {.ok = is_drained || how == kJobFinished, .reason = how, .is_drained = is_drained};
}

RunSummary summary_of_end(const std::string& how, const std::string& reason) {
  const EndJob end = end_that(how);
  RunSummary summary;
  summary.reason = reason;
  if (!end.ok) return summary;
  summary.status = end.is_drained ? RunStatus::kDrained : RunStatus::kNothingToDo;
  summary.exit_code = kExitOk;
  return summary;
}

absl::Status check_no_contradiction(Files& files, const std::string& out) {
  const auto contradiction = find_contradiction(files, out);
  if (!contradiction) return absl::OkStatus();
  return Hopeless(absl::StrCat(*contradiction, "; nothing goes on here before somebody has moved ",
                               join_path(out, kContradictionFolder),
                               " away, and the checkpoints in doubt with it"));
}

}  // namespace evermoe
