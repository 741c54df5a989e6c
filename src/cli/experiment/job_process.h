// One `evermoe run` after another, each as a process of its own: what experiments and profiles
// measure.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/experiment/metrics_tail.h"
#include "control/launch/signal_inbox.h"
#include "env/process.h"

namespace evermoe {

inline constexpr int64_t kJobResultBytesMax = 64 << 20;
inline constexpr int64_t kJobMetricsBytesMax = int64_t{1} << 30;

// What was seen of a run while it went on, each thing when it was first seen. Seconds since its
// start.
struct JobSightings {
  struct Step {
    double seconds = 0;
    int64_t step = 0;  // the newest in metrics.jsonl; grows
  };
  struct Checkpoint {
    double seconds = 0;
    int64_t step = 0;    // of the published checkpoint
    int64_t newest = 0;  // step in metrics.jsonl by then
  };
  std::vector<Step> steps;
  std::vector<Checkpoint> checkpoints;
  int64_t memory_peak_bytes =
      0;  // the most that one worker had resident, at any look; 0: none seen
};

struct JobEnd {
  nlohmann::json summary;  // null: it ended without one, or was stopped
  std::string metrics;     // metrics.jsonl
  JobSightings seen;
  int signal = 0;  // that interrupted it; else 0
};

struct JobRequest {
  std::string config;
  std::vector<std::string> settings;  // in order, as --set
  std::string faults;                 // a fault script; empty: none
  // How often to look at the run while it goes on.
  absl::Duration look_every = absl::Seconds(1);
};

// Runs in FOLDER/job, which is emptied before and after; what the newest one said is in
// FOLDER/run.log. SIGINT, SIGTERM and SIGHUP to this process, from open() on, stop the run under
// way. One thread.
class JobRunner {
 public:
  // A run that takes longer than `seconds_max` is stopped.
  static absl::StatusOr<std::unique_ptr<JobRunner>> open(const std::string& folder,
                                                         double seconds_max);

  // InvalidInput with what it said if the run was refused (exit code 2).
  absl::StatusOr<JobEnd> run(const JobRequest& request);

 private:
  JobRunner(const std::string& folder, double seconds_max) : folder_(folder), max_(seconds_max) {}
  std::string at(const std::string& name) const;
  absl::StatusOr<std::unique_ptr<ChildProcess>> start(const JobRequest& request) const;
  absl::StatusOr<bool> await(ChildProcess& child, const JobRequest& request, JobEnd& end);
  void look(absl::Duration since, MetricsTail& metrics, JobSightings& seen) const;
  absl::Status collect(ChildProcess& child, JobEnd& end) const;

  const std::string folder_;
  const double max_;
  std::unique_ptr<SignalInbox> inbox_;
  std::string program_;
};

}  // namespace evermoe
