// Which checkpoints a path given by a person means.
#pragma once

#include <string>
#include <vector>

#include "env/files.h"

namespace evermoe {

// Newest first. `path` as for CheckpointReader::open(); empty if it leads to none.
std::vector<std::string> candidate_checkpoints(Files& files, const std::string& path);

}  // namespace evermoe
