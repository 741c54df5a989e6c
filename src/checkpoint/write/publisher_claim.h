// Who publishes the checkpoints of a job: of the processes that have played rank 0 the one that
// was started last.
//
// A process that was taken for lost may only have stood still. When it wakes up it would go on to
// publish what it had been asked to: `latest` would fall back behind what its successor has
// published meanwhile, and retention would remove, by what was so then, what is needed now. So who
// begins to publish leaves the number of its start, which grows through the lives of all
// controllers of the job, in the symbolic link OUT/terms/publisher, and looks, before everything
// that others take for the truth, whether the link still says so. A later one replaces an earlier
// one, never the other way round.
//
// There are no locks, as for terms (folder_term.h): what this cannot exclude is a write that the
// look before it allowed and the file system carries out later.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "checkpoint/write/folder_term.h"
#include "env/files.h"

namespace evermoe {

// Of one process. Threads: any, one at a time or not.
class PublisherClaim {
 public:
  // `folder` is the job's, `term` was its newest when the process was started, as the `start`-th of
  // the job (control/agent/agent_actions.h). One of them 0: none was given, and all is allowed.
  PublisherClaim(Files& files, const std::string& folder, FolderTerm term, int64_t start);

  // Claims it, or looks whether it is still this process's. Replaced (folder_term.h) says that a
  // later one has it. Any other error: it cannot be known or claimed now.
  absl::Status hold() const;

 private:
  Files& files_;
  const std::string path_;
  const FolderTerm term_;
  const int64_t start_;
};

}  // namespace evermoe
