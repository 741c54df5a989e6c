// Flags that mean the same in every command that begins a job, or a part of one.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/config_arguments.h"
#include "config/job_config.h"
#include "faults/fault.h"

namespace evermoe {

// --drained-exit-code
void add_drained_exit_code(CLI::App& command, int& code);

// Of a job whose nodes are processes of their own: CONFIG, --set, --out, and the nodes dealt.
void add_job_of_nodes(CLI::App& command, ConfigArguments& config, std::string& out);
void add_node_counts(CLI::App& command, int& nodes, const std::string& nodes_default, int& spares);

// --faults
void add_faults(CLI::App& command, std::string& path);
// The script in the file; nothing for no path. InvalidInput also for faults that one process cannot
// fire where nodes are processes of their own: by time, or of the controller.
enum class FaultReach { kOneMachine, kManyMachines };
absl::StatusOr<FaultScript> load_faults(const std::string& path, const JobConfig& config,
                                        FaultReach reach);

}  // namespace evermoe
