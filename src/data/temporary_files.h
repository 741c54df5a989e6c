// Files of a token cache that are being written: CACHE/NAME.tmp-HOST-PID-NUMBER, renamed when they
// are complete. Processes of several machines may write into one cache at once, so each has names
// of its own; what a killed one leaves behind is removed when a job begins again.
#pragma once

#include <string>

#include "env/files.h"

namespace evermoe {

// For a file that is to become `path`; no other process or thread gets it.
std::string temporary_name(const std::string& path);

// Removes the temporary files of this machine's processes that live no more. What another machine's
// processes left stays until a job begins there. Errors are only logged: nothing depends on it.
void remove_leftovers(Files& files, const std::string& directory);

}  // namespace evermoe
