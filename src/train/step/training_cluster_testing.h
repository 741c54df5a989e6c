// A whole job in one process, for tests, over a simulated network whose order of deliveries comes
// from a seed. Its ranks are driven by hand, or are whole members that run to the job's end:
//
//   TrainingCluster cluster("name");
//   cluster.run(config, [](TrainingRank& rank) { return rank.steps(3); });
//   cluster.run_job(config);
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "checkpoint/write/folder_term.h"
#include "data/token_source.h"
#include "train/step/training_rank_testing.h"

namespace evermoe {

// State of the whole model, put together from the shards of all ranks.
struct ClusterResult {
  absl::Status status;                        // the first rank's that is not ok
  std::map<std::string, at::Tensor> weights;  // master, flat, by operator
  std::map<std::string, at::Tensor> exp_avgs;
  std::map<std::string, at::Tensor> exp_avg_sqs;
  std::map<std::string, at::Tensor> compute;
  std::map<std::string, at::Tensor> gradients;  // reduced
  std::string digest;                           // of masters, moments and live compute weights
  Fingerprint transcript;                       // of everything that the network did
  absl::Duration duration;                      // virtual
  Step resumed_from{-1};                        // of run_job()
};

struct TrainingJobOptions {
  uint64_t seed = 0;
  // The process of `rank` dies at this virtual time; nobody takes its place.
  struct Kill {
    Rank rank;
    absl::Duration time;
  };
  std::vector<Kill> kills = {};
};

// A configuration for the preset "<style>-tiny", plus settings like "parallel.stages=2".
JobConfig tiny_config(const std::string& style, const std::vector<std::string>& settings);

// The same with types such as "bf16" (precision alone) or "fp8/fp16/fp8+fp16" (precision, master,
// moments).
std::vector<std::string> with_types(const std::string& types, std::vector<std::string> settings);
// A name for tests of these types.
std::string types_name(const std::string& types);
// Types narrower than FP32 masters and moments: the rows of MoEtion's Table 7, and two more.
const std::vector<std::string>& narrow_types();
// Those, and every precision with wide ones.
const std::vector<std::string>& all_types();

class TrainingCluster {
 public:
  using Body = std::function<absl::Status(TrainingRank&)>;

  // A fresh directory with a token file; checkpoints go there too.
  explicit TrainingCluster(const std::string& name);
  ~TrainingCluster();

  // Of the trainers that are built from now on. The device is the CPU unless EVERMOE_TEST_DEVICE is
  // "fake" (tensor/fake_device_testing.h) or "cuda".
  void set_device(c10::Device device) { device_ = device; }
  c10::Device device() const { return device_; }
  void set_buckets(const BucketLimits& buckets) { buckets_ = buckets; }
  // Likewise: training goes on while files are written, as in production. When they are there is
  // not the same in every run.
  void write_behind() { waits_for_files_ = false; }
  void set_files(Files& files) { files_ = &files; }
  // In whose name is saved from now on.
  void set_term(const FolderTerm& term) { term_ = term; }
  // Told of every save that is refused (TrainerEnvironment). Several threads call it.
  void set_save_failed(std::function<void(Step, const absl::Status&)> told) {
    save_failed_ = std::move(told);
  }

  // Builds one trainer per rank, resumes, runs `body` on each, collects.
  ClusterResult run(const JobConfig& config, const Body& body) const;
  // The same for trainers without a state: `body` begins with resume() or restore_base().
  ClusterResult run_stateless(const JobConfig& config, const Body& body) const;
  // Goes on from what is in the store to the end, with members and their two threads as in
  // production, under a controller of a few lines: without protection, and a loss ends the job.
  ClusterResult run_job(const JobConfig& config, const TrainingJobOptions& options = {}) const;

  // For a trainer with this transport, over this directory and these tokens.
  TrainerEnvironment environment(Transport& transport) const;
  const TokenParts& tokens() const { return tokens_; }
  const std::string& directory() const { return directory_; }

 private:
  absl::StatusOr<std::unique_ptr<Trainer>> make_trainer(const JobConfig& config,
                                                        Transport& transport) const;

  std::string directory_;
  TokenParts tokens_;
  c10::Device device_;
  BucketLimits buckets_;
  bool waits_for_files_ = true;
  Files* files_ = &real_files();
  FolderTerm term_;
  std::function<void(Step, const absl::Status&)> save_failed_;
};

}  // namespace evermoe
