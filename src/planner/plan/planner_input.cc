#include "planner/plan/planner_input.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "planner/cluster_model/cluster_spec.h"
#include "planner/measured/measured_recovery.h"

namespace evermoe {
namespace {

constexpr int kTraceNodes = 400;  // of a trace that names only machines with faults, at least

bool is_about_cluster(const std::string& setting) {
  for (const char* table : {"cluster.", "gpu.", "links.", "failures.", "recovery."}) {
    if (absl::StartsWith(setting, table)) return true;
  }
  return false;
}

absl::StatusOr<ClusterSpec> load_named_cluster(Files& files, const std::string& argument) {
  if (absl::EndsWith(argument, ".toml")) return load_cluster(files, argument);
  ClusterSpec cluster = default_cluster();
  const absl::StatusOr<GpuSpec> gpu = gpu_spec(argument);
  if (!gpu.ok()) {
    return InvalidInput(absl::StrCat("cluster: found \"", argument,
                                     "\", allowed: a file ending in .toml, or one of ",
                                     absl::StrJoin(gpu_names(), ", ")));
  }
  cluster.gpu = *gpu;
  return cluster;
}

absl::Status apply_trace(Files& files, const std::string& path, PlannerInput& input) {
  ASSIGN_OR_RETURN(input.trace,
                   load_failure_trace(files, path, std::max(kTraceNodes, input.cluster.nodes)));
  input.cluster.failures = fitted_law(*input.trace);
  return absl::OkStatus();
}

absl::Status apply_failures(Files& files, const std::string& failures, PlannerInput& input) {
  if (failures.empty()) return absl::OkStatus();
  if (absl::EndsWith(failures, ".csv")) return apply_trace(files, failures, input);
  std::vector<std::string> settings;
  for (const auto part : absl::StrSplit(failures, ','))
    settings.push_back(absl::StrCat("failures.", std::string(part)));
  ASSIGN_OR_RETURN(input.cluster, changed(input.cluster, settings, "--failures"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlannerInput> load_planner_input(Files& files, const PlannerNames& names) {
  std::vector<std::string> of_cluster, of_job;
  for (const std::string& setting : names.settings)
    (is_about_cluster(setting) ? of_cluster : of_job).push_back(setting);
  PlannerInput input;
  ASSIGN_OR_RETURN(input.job, load_planned_job(files, names.model, of_job));
  ASSIGN_OR_RETURN(input.cluster, load_named_cluster(files, names.cluster));
  if (!names.recovery.empty()) {
    ASSIGN_OR_RETURN(const RuntimeProfile profile, load_runtime_profile(files, names.recovery));
    ASSIGN_OR_RETURN(input.cluster, with_recovery(input.cluster, profile, names.recovery));
  }
  RETURN_IF_ERROR(apply_failures(files, names.failures, input));
  ASSIGN_OR_RETURN(input.cluster, changed(input.cluster, of_cluster, "--set"));
  return input;
}

}  // namespace evermoe
