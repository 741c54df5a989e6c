// Where the files of a checkpoint lie: in its folder and, of a partial one, in those of older ones.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "checkpoint/format/manifest.h"
#include "env/files.h"

namespace evermoe {

// The paths of the manifest's files, in their order; `checkpoint` is its folder.
std::vector<std::string> file_paths(Files& files, const std::string& checkpoint,
                                    const Manifest& manifest);

// What can be said without reading contents: files that are missing (NotFound) or have another
// size, and older checkpoints that have been saved again with other bytes since (Corrupt); any
// other error is the disk's. Each names its file.
std::vector<absl::Status> file_problems(Files& files, const std::string& checkpoint,
                                        const Manifest& manifest);

}  // namespace evermoe
