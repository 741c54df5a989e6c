// Runs one stage's rounds of a step: which micro-batch, from whom, to whom, in which order.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "pipeline/pipeline_schedule.h"
#include "placement/topology.h"
#include "train/batch_reader.h"
#include "train/stage_model.h"
#include "train/verdict.h"

namespace evermoe {

class StageRunner {
 public:
  // All references must outlive the runner. `world` has all ranks in rank order.
  StageRunner(const TrainConfig& train, const Topology& topology, Role role, Communicator& world,
              const BatchReader& batches, StageModel& model);

  // Accumulates the gradients of the step that starts from `step`, each micro-batch's loss weighted
  // with loss_scale / micro_batches. Throws StatusError.
  StepFindings run_step(Step step, double loss_scale);

  // This rank's sum of validation losses over `micro_batches` (non-zero on the last stage only).
  double run_validation(int64_t micro_batches);

 private:
  struct Sent {
    at::Tensor tensor;
    PendingMessage message;
  };
  enum class Phase : uint32_t { kTraining = 0, kValidation = 1 };
  enum class Direction : uint32_t { kActivation = 0, kGradient = 1 };

  bool first() const { return role_.stage == 0; }
  bool last() const { return role_.stage == topology_.stages() - 1; }
  // The micro-batch of this lane in a round; nullopt if the round has none for it.
  std::optional<MicroBatch> micro_batch_of(int round, int64_t micro_batches) const;
  MicroBatchTokens tokens_of(Phase phase, Step step, MicroBatch micro_batch) const;

  MicroBatchGraph forward(Phase phase, Step step, std::optional<MicroBatch> micro_batch);
  void backward(Step step, std::optional<MicroBatch> micro_batch, MicroBatchGraph graph, double scale);

  void send(int stage, uint32_t name, MicroBatch micro_batch, at::Tensor tensor);
  at::Tensor receive(int stage, uint32_t name, MicroBatch micro_batch);
  // Sends are not waited for one by one: a stage must never wait for another to take its results,
  // that is what keeps the schedule free of deadlock.
  void finish_sends();

  const TrainConfig& train_;
  const Topology& topology_;
  const Role role_;
  Communicator& world_;
  const BatchReader& batches_;
  StageModel& model_;
  const std::vector<RoundOperation> order_;
  std::deque<Sent> sent_;
};

}  // namespace evermoe
