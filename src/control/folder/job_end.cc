#include "control/folder/job_end.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/exit_codes.h"
#include "recovery/member/restore/witnesses.h"

namespace evermoe {
namespace {

// Before the reason of a failure that would come again.
constexpr char kBadInput[] = "bad input: ";
constexpr char kHopeless[] = "not to be tried again: ";
// It is the target of a symbolic link: some file systems take no more than 1,023 bytes.
constexpr size_t kHowBytesMax = 900;

std::string how_of(const EndJob& end) {
  if (end.ok) return end.is_drained ? kJobDrained : kJobFinished;
  const char* const kind = end.bad_input ? kBadInput : end.is_hopeless ? kHopeless : "";
  return absl::StrCat(kind, end.reason).substr(0, kHowBytesMax);
}

}  // namespace

absl::Status mark_end(Files& files, const std::string& folder, const FolderTerm& term,
                      const EndJob& end) {
  return mark_job_ended(files, folder, term, how_of(end));
}

EndJob end_that(const std::string& how) {
  const bool is_drained = how == kJobDrained;
  return {.ok = is_drained || how == kJobFinished,
          .bad_input = how.starts_with(kBadInput),
          .reason = how,
          .is_hopeless = how.starts_with(kHopeless),
          .is_drained = is_drained};
}

absl::Status failure_of(const EndJob& end) {
  if (end.bad_input) return InvalidInput(end.reason);
  return end.is_hopeless ? Hopeless(end.reason) : Internal(end.reason);
}

RunSummary summary_of_end(const std::string& how, const std::string& reason) {
  const EndJob end = end_that(how);
  RunSummary summary;
  summary.reason = reason;
  if (!end.ok) {
    summary.exit_code = exit_code(failure_of(end));
    return summary;
  }
  summary.status = end.is_drained ? RunStatus::kDrained : RunStatus::kNothingToDo;
  summary.exit_code = kExitOk;
  return summary;
}

absl::Status check_no_contradiction(Files& files, const std::string& out) {
  const auto contradiction = find_contradiction(files, out);
  if (!contradiction) return absl::OkStatus();
  return Hopeless(absl::StrCat(*contradiction, "; to go on here, first move away ",
                               join_path(out, kContradictionFolder),
                               " and the checkpoints in doubt"));
}

}  // namespace evermoe
