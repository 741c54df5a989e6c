// How a job has ended, as its folder says it (OUT/terms, checkpoint/write/folder_term.h).
//
// Written by the controller that ends the job, before it sees everybody off: nobody else may be
// left who has heard it, because the host stands still or has lost its place. The host writes it,
// too: it knows of failures that no controller told it. Who is first counts.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "checkpoint/write/folder_term.h"
#include "control/launch/run_summary.h"
#include "control/wire/control_messages.h"
#include "env/files.h"

namespace evermoe {

absl::Status mark_end(Files& files, const std::string& folder, const FolderTerm& term,
                      const EndJob& end);
// The same read back: `how` is what end_of() and end_by_former() say.
EndJob end_that(const std::string& how);
// The error of an end that is not `ok`: whether the input is at fault, or the same command would
// fail again.
absl::Status failure_of(const EndJob& end);
// For somebody who had nothing to do with the end but learned of it.
RunSummary summary_of_end(const std::string& how, const std::string& reason);

// Hopeless if OUT has witnesses of recomputed bits that differ: whatever else happened, the job is
// not to be taken for finished.
absl::Status check_no_contradiction(Files& files, const std::string& out);

}  // namespace evermoe
