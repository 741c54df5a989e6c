// A whole job in one process, for tests: every rank is a thread over the in-process transport.
//
//   TrainingCluster cluster(config);
//   const ClusterResult result = cluster.run([](Trainer& trainer) { return
//   trainer.step(false).status(); });
#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "comm/in_process/in_process_transport.h"
#include "data/token_source.h"
#include "train/step/trainer.h"

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
  Fingerprint transcript;
};

// A configuration for the preset "<style>-tiny", plus settings like "parallel.stages=2".
JobConfig tiny_config(const std::string& style, const std::vector<std::string>& settings);

class TrainingCluster {
 public:
  // A fresh directory with a token file; checkpoints go there too.
  explicit TrainingCluster(const std::string& name);
  ~TrainingCluster();

  // Builds one trainer per rank, resumes, runs `body` on each, collects.
  ClusterResult run(const JobConfig& config, const std::function<absl::Status(Trainer&)>& body,
                    const InProcessOptions& transport = {});

  // For a trainer with this transport, over this directory and these tokens.
  TrainerEnvironment environment(Transport& transport) const;
  const TokenParts& tokens() const { return tokens_; }
  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
  TokenParts tokens_;
};

}  // namespace evermoe
