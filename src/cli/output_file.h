// Files that commands write at the end of their work.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "env/files.h"

namespace evermoe {

// InvalidInput with one line where no file can be: in a folder that does not exist, or at a
// folder's own name. To be asked before the work, which may take minutes.
absl::Status check_output_file(Files& files, const std::string& option, const std::string& path);

}  // namespace evermoe
