// OUT/workers.json, OUT/control.json and OUT/controller.json: which process plays which role at
// this moment, and where the controller is, for people and scripts.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "env/files.h"

namespace evermoe {

// {"0.0": 4711, "0.1": 4712}: every name that has a live process, and its id. Replaces the file
// atomically. Not synced: after a crash of the machine the processes are gone too.
absl::Status write_workers_file(Files& files, const std::string& path,
                                const std::map<std::string, pid_t>& workers);

// {"address": "10.0.0.1:29600"}: where the controller listens, likewise; empty: no file.
absl::Status write_controller_file(Files& files, const std::string& path,
                                   const std::string& address);
// The address in it. NotFound or another error of the file; InvalidArgument if it names none.
absl::StatusOr<std::string> read_controller_file(Files& files, const std::string& path);

}  // namespace evermoe
