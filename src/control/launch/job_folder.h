// The output folder of a job, held by one run at a time.
//
//   OUT/config.toml        the full configuration of the newest run; what its workers read
//   OUT/checkpoints/       checkpoint/read/checkpoint_reader.h
//   OUT/cache/             token files, and which files the job's data are (data/job_tokens.h)
//   OUT/logs/              what the workers wrote
//   OUT/workers.json       which process plays which role now
//   OUT/control.json       of a protected job: "controller", "agent.<node>"
//   OUT/faults.toml        the faults that are rehearsed; faults.toml.injected: those that have
//                          injected
//   OUT/metrics.jsonl, OUT/loss.csv
//   OUT/terms/             which runs there were: the newest one may write (folder_term.h)
//   OUT/run.lock           held while a run, or a worker that it left behind, lives
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "checkpoint/write/folder_term.h"
#include "config/job_config.h"
#include "control/launch/output_lock.h"
#include "env/files.h"

namespace evermoe {

class JobFolder {
 public:
  // Creates and locks the folder, takes its next term, then writes config.toml. InvalidInput if it
  // cannot be written, if another run holds it, or if its newest readable checkpoint is of another
  // model or data order: names the keys that differ, and config.toml is left as it was. Topology,
  // train.steps and the like may differ.
  static absl::StatusOr<std::unique_ptr<JobFolder>> prepare(Files& files, const JobConfig& config,
                                                            const std::string& path);

  const std::string& path() const { return path_; }
  std::string config() const { return join_path(path_, "config.toml"); }
  std::string latest_checkpoint() const { return join_path(path_, "checkpoints/latest"); }
  std::string token_cache() const { return join_path(path_, "cache"); }
  std::string metrics() const { return join_path(path_, "metrics.jsonl"); }
  std::string curve() const { return join_path(path_, "loss.csv"); }
  std::string faults() const { return join_path(path_, "faults.toml"); }
  // Keeps the folder locked as long as it is open in any process.
  int lock_fd() const { return lock_->fd(); }
  const FolderTerm& term() const { return term_; }

  // The newest readable checkpoint when the folder was prepared; Step(0) for none.
  Step step() const { return step_; }
  // Checkpoints that could not be read, one line each.
  const std::vector<std::string>& skipped() const { return skipped_; }

 private:
  JobFolder(std::string path, std::unique_ptr<OutputLock> lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  absl::Status check_newest(Files& files, const JobConfig& config);

  const std::string path_;
  const std::unique_ptr<OutputLock> lock_;
  FolderTerm term_;
  Step step_;
  std::vector<std::string> skipped_;
};

}  // namespace evermoe
