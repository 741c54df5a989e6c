// Terms: who may write into a job's folder.
//
// Every run takes the next term when it begins: the symbolic link OUT/terms/<number>, whose target
// names the run. Making a link is one exclusive call that has its whole content at once, on network
// file systems too, so no two runs have one term, and numbers only grow. From then on nobody of an
// older term may act: whoever has one looks now and then, and before everything that others would
// take for the truth.
//
// No locks: a run that stood still, or was cut off, finds out when it comes back. What it cannot
// exclude is a write that the check before it allowed and the file system carries out later; shards
// and manifests therefore name the term, and those of different terms are never one checkpoint.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "env/files.h"

namespace evermoe {

struct FolderTerm {
  int64_t number = 0;  // 0: none was taken; then everything is allowed
  std::string owner;   // one line, different for every run: for people, too
  friend bool operator==(const FolderTerm&, const FolderTerm&) = default;
};

// For a run that this process begins now.
std::string new_term_owner();

// The next term of the folder, which exists. NoCapacity or Internal if the disk refuses.
absl::StatusOr<FolderTerm> take_next_term(Files& files, const std::string& folder,
                                          const std::string& owner);

// Ok: `own` is still the newest. Hopeless says who has a newer one, or that the folder has been
// deleted or begun anew. Any other error: it cannot be known now.
absl::Status check_term(Files& files, const std::string& folder, const FolderTerm& own);

}  // namespace evermoe
