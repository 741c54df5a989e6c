// Whole protected jobs with the torch trainer over the simulated network: the controller core,
// members, snapshots, logs and recovery that run in production, in one process and from one seed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/simulated_job.h"
#include "train/step/trainer.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {

// A tiny model of this style on 2 x 2 roles, with evaluations and durable checkpoints; `more` are
// settings.
JobConfig torch_job_config(const std::string& style, int64_t steps,
                           const std::vector<std::string>& more);

// What a parameterised test runs.
struct TorchCase {
  std::string name;
  std::string style;
  std::vector<std::string> settings;
  StrategyKind strategy = StrategyKind::kSparse;
  friend std::ostream& operator<<(std::ostream& out, const TorchCase& c) { return out << c.name; }
};

// The process of `rank` dies when it passes the point for the `passing`-th time in the job.
SimulatedFault kill(Rank rank, const std::string& point, int64_t passing);

// Below `bound`; a function of its arguments.
uint64_t draw(uint64_t seed, const std::string& what, uint64_t bound);

// What a job was like and what it left behind.
struct TorchOutcome {
  SimulatedOutcome job;
  std::string
      stored_digest;  // of the newest durable checkpoint, which has been verified, or an error
  // Steps that ranks ran again, and of these the ones ...
  int64_t steps_again = 0;
  int64_t sparse_again = 0;  // with frozen operators or parts of operators
  int64_t mixed_again = 0;   // with operators of which some parts were frozen and some were not
  int64_t sparse_skipped_again = 0;  // with frozen operators, whose verdict skipped the update
  int64_t sparse_clipped_again = 0;  // with frozen operators, whose verdict clipped the gradients
  std::string explain() const;       // for people
};

// Of the newest checkpoint in this folder, which is verified; or an error.
std::string stored_digest_of(const std::string& directory);

class TorchJob {
 public:
  // A configuration as tiny_config() makes it; the topology is taken from it.
  explicit TorchJob(const JobConfig& config);

  SimulatedShape& shape() { return shape_; }
  // Files are written beside the run, as in production; runs then do not repeat exactly.
  void write_in_the_background() { waits_for_files_ = false; }
  // Every process is asked to stop in the step after this one; Step(-1): never.
  void drain_after(Step step) { drain_after_ = step; }

  // Goes on from what is in the store, which is empty the first time.
  TorchOutcome run(const std::vector<SimulatedFault>& faults, uint64_t seed);
  // The same with an empty store.
  TorchOutcome run_anew(const std::vector<SimulatedFault>& faults, uint64_t seed);
  // The last checkpoint of a job with this configuration that protects nothing and loses nobody.
  // The store is empty afterwards.
  std::string unprotected_digest();

 private:
  struct Watched;
  std::unique_ptr<StageTrainer> make_trainer(Transport& transport);
  void watch(Watched& watched);
  std::string stored_digest() const;
  void clear_store();

  const JobConfig config_;
  SimulatedShape shape_;
  TrainingCluster cluster_;
  bool waits_for_files_ = true;
  Step drain_after_{-1};
  TorchOutcome outcome_;                          // of the run under way
  std::map<std::pair<Rank, Step>, int> trained_;  // how often
};

}  // namespace evermoe
