// The output folder of a job, in which one host at a time decides.
//
//   OUT/config.toml        the full configuration of the newest run; what its workers read
//   OUT/checkpoints/       checkpoint/read/checkpoint_reader.h
//   OUT/cache/             token files, and which files the job's data are (data/job_tokens.h)
//   OUT/logs/              what controller and agents wrote; workers: node-<n>/worker-<role>.log
//   OUT/workers.json       which process plays which role now
//   OUT/control.json       which processes are "controller" and "agent.<node>"
//   OUT/controller.json    where the controller listens, while it runs
//   OUT/faults.toml        the faults that are rehearsed; faults.toml.injected: those that have
//                          injected
//   OUT/metrics.jsonl, OUT/loss.csv
//   OUT/history.json       what a host remembers of its job, for the next one
//   OUT/terms/             which hosts there were: the newest one decides (folder_term.h); and who
//                          publishes checkpoints (publisher_claim.h)
//   OUT/keys/              of a job of several nodes: its keys (control/keys/job_keys.h)
//   OUT/contradiction/     witnesses of bits that differ (recovery/member/restore/witnesses.h): the
//                          job has ended
//   OUT/run.lock           held while a run, or a worker that it left behind, lives on this machine
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "checkpoint/write/folder_term.h"
#include "config/job_config.h"
#include "control/folder/job_objects.h"
#include "control/folder/output_lock.h"
#include "env/files.h"

namespace evermoe {

struct JobFolderOptions {
  std::string build;  // of the program; another one begins another job
  // The job is on several machines, which live on when its host is lost: the next host with the
  // same configuration and build continues it. Else everything of the former one has ended with it.
  bool is_on_many_machines = false;
  StoreWait store_wait = {};  // for the object store's newest checkpoint
};

// The faults that a job rehearses.
inline std::string job_faults(const std::string& out) { return join_path(out, "faults.toml"); }

// Where the controller listens (workers_file.h).
inline std::string controller_file(const std::string& out) {
  return join_path(out, "controller.json");
}

// Makes the folder if it is not there, and tries to write into it. InvalidInput if it is a file or
// may not be written.
absl::Status check_output_folder(Files& files, const std::string& path);

class JobFolder {
 public:
  // Creates and locks the folder, takes its next term, then writes config.toml, unless it continues
  // a job that has one: term().hosts_before tells. InvalidInput if it
  // cannot be written, if another run holds it, or if its newest readable checkpoint is of another
  // model or data order: names the keys that differ, and config.toml is left as it was. Topology,
  // train.steps and the like may differ. Hopeless while the folder has witnesses of bits that
  // differ.
  static absl::StatusOr<std::unique_ptr<JobFolder>> prepare(Files& files, const JobConfig& config,
                                                            const std::string& path,
                                                            const JobFolderOptions& options = {});

  const std::string& path() const { return path_; }
  std::string config() const { return join_path(path_, "config.toml"); }
  std::string latest_checkpoint() const { return join_path(path_, "checkpoints/latest"); }
  std::string token_cache() const { return join_path(path_, "cache"); }
  std::string metrics() const { return join_path(path_, "metrics.jsonl"); }
  std::string curve() const { return join_path(path_, "loss.csv"); }
  std::string faults() const { return job_faults(path_); }
  // Keeps the folder locked as long as it is open in any process.
  int lock_fd() const { return lock_->fd(); }
  const FolderTerm& term() const { return term_; }
  // How the job that this host was to continue has ended while the folder was prepared; nullopt if
  // it has not. The term is of another job then.
  const std::optional<std::string>& end_meanwhile() const { return end_meanwhile_; }

  // The newest readable checkpoint when the folder was prepared; Step(0) for none.
  Step step() const { return step_; }
  // Checkpoints that could not be read, one line each.
  const std::vector<std::string>& skipped() const { return skipped_; }
  // What was brought from the object store, or why nothing was (job_objects.h).
  const std::vector<std::string>& brought() const { return brought_; }
  // The steps of which the object store has damaged checkpoints.
  const std::set<Step>& damaged_in_store() const { return damaged_in_store_; }

 private:
  JobFolder(std::string path, std::unique_ptr<OutputLock> lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  absl::Status check_newest(Files& files, const JobConfig& config);

  const std::string path_;
  const std::unique_ptr<OutputLock> lock_;
  FolderTerm term_;
  std::optional<std::string> end_meanwhile_;
  Step step_;
  int64_t saved_term_ = 0;  // of its checkpoint
  std::vector<std::string> skipped_;
  std::vector<std::string> brought_;
  std::set<Step> damaged_in_store_;
};

}  // namespace evermoe
