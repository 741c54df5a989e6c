#include "cli/experiment/experiment_folder.h"

#include "absl/strings/str_cat.h"
#include "base/build_fingerprint.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "cli/experiment/job_process.h"
#include "env/files.h"
#include "planner/failures/failure_trace.h"

namespace evermoe {
namespace {

constexpr int kFolderVersion = 4;

absl::StatusOr<nlohmann::json> identity_of(const Experiment& experiment, const std::string& text) {
  ASSIGN_OR_RETURN(const std::string config,
                   read_file(real_files(), experiment.config, kExperimentBytesMax));
  nlohmann::json traces = nlohmann::json::object();
  for (const FailureProcess& process : experiment.failures) {
    if (process.trace.empty()) continue;
    ASSIGN_OR_RETURN(const std::string trace,
                     read_file(real_files(), process.trace, kTraceBytesMax));
    FingerprintStream stream;
    stream.update(trace);
    traces[process.trace] = to_hex(stream.finish());
  }
  return nlohmann::json{{"version", kFolderVersion},
                        {"file", text},
                        {"config", config},
                        {"traces", std::move(traces)},
                        {"build", build_fingerprint()}};
}

}  // namespace

std::string ExperimentFolder::at(const std::string& name) const { return join_path(path_, name); }

absl::Status ExperimentFolder::claim(const Experiment& experiment, const std::string& text) {
  Files& files = real_files();
  RETURN_IF_ERROR(files.create_directories(at("results")));
  ASSIGN_OR_RETURN(const nlohmann::json own, identity_of(experiment, text));
  const absl::StatusOr<std::string> found =
      read_file(files, at("experiment.json"), kJobResultBytesMax);
  if (!found.ok()) return replace_file(files, at("experiment.json"), own.dump());
  if (nlohmann::json::parse(*found, nullptr, false) == own) return absl::OkStatus();
  return InvalidInput(absl::StrCat("--out: found ", path_,
                                   " of another experiment, version of it or build of evermoe, "
                                   "allowed: its own or a new folder"));
}

nlohmann::json ExperimentFolder::result(const std::string& name) const {
  const absl::StatusOr<std::string> text =
      read_file(real_files(), at("results/" + name), kJobResultBytesMax);
  if (!text.ok()) return nullptr;
  const nlohmann::json value = nlohmann::json::parse(*text, nullptr, false);
  return value.is_discarded() ? nlohmann::json(nullptr) : value;
}

absl::Status ExperimentFolder::keep_result(const std::string& name, const nlohmann::json& value) {
  return replace_file(real_files(), at("results/" + name), value.dump());
}

}  // namespace evermoe
