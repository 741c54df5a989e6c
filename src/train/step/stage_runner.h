// Runs one stage's rounds of a step: which micro-batch, from whom, to whom, in which order.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "parallel/pipeline_schedule.h"
#include "parallel/topology.h"
#include "recovery/stage_trainer.h"
#include "tensor/host_bytes.h"
#include "train/layers/finite_probe.h"
#include "train/layers/stage_model.h"
#include "train/step/batch_reader.h"
#include "train/step/verdict.h"

namespace evermoe {

class StageRunner {
 public:
  // All references must outlive the runner.
  StageRunner(const TrainConfig& train, const Topology& topology, Role role,
              const BatchReader& batches, StageModel& model);

  // Accumulates the gradients of the step that starts from `step`, each micro-batch's loss weighted
  // with loss_scale / micro_batches. `probes`: looks for the first number that is not finite.
  // `added` is called within the last backward pass. Throws StatusError.
  StepFindings run_step(Step step, double loss_scale, bool probes, Boundary& boundary,
                        const GradientsAdded& added);
  // What this lane's micro-batches of the last run_step() chose, added in their order.
  const ExpertLoads& expert_loads() const { return expert_loads_; }

  // Runs this lane's part of `micro_batches` of an evaluation, from number `first_number` on:
  // loss_sum is over tokens, of which there are `tokens` (both zero but on the last stage). Their
  // boundary messages count from 0. Throws StatusError.
  StepFindings run_validation(int64_t first_number, int64_t micro_batches, Boundary& boundary);

 private:
  enum class Phase { kTraining, kValidation };

  bool first() const { return role_.stage == 0; }
  bool last() const { return role_.stage == topology_.stages() - 1; }
  // The micro-batch of this lane in a round; nullopt if the round has none for it.
  std::optional<MicroBatch> micro_batch_of(int round, int64_t micro_batches) const;
  MicroBatchTokens tokens_of(Phase phase, Step step, MicroBatch micro_batch) const;
  int64_t sequences_of(Phase phase, MicroBatch micro_batch) const;

  // Tokens are those of micro-batch `first_number` + `micro_batch`.
  MicroBatchGraph forward(Phase phase, Step step, std::optional<MicroBatch> micro_batch,
                          double scale, bool probes, Boundary& boundary, int64_t first_number = 0,
                          const GradientsAdded& added = nullptr);
  void backward(std::optional<MicroBatch> micro_batch, MicroBatchGraph graph, Boundary& boundary);

  // The lane of `stage` that runs this micro-batch.
  Rank peer(int stage, MicroBatch micro_batch) const;
  void send(int stage, BoundaryDirection direction, MicroBatch micro_batch,
            const at::Tensor& tensor, Boundary& boundary) const;
  // Where a message of a neighbour stage comes to.
  struct Landing {
    explicit Landing(at::Tensor memory) : tensor(std::move(memory)), into(tensor) {}
    at::Tensor tensor;
    HostWritable into;
  };
  std::shared_ptr<Landing> new_landing(int64_t sequences) const;
  // Lets the message that an operation of the step will receive come while this rank computes.
  void expect(const RoundOperation& operation, Boundary& boundary);
  at::Tensor receive(int stage, BoundaryDirection direction, MicroBatch micro_batch,
                     int64_t sequences, Boundary& boundary);

  const TrainConfig& train_;
  const Topology& topology_;
  const Role role_;
  const BatchReader& batches_;
  StageModel& model_;
  const std::vector<RoundOperation> order_;
  ExpertLoads expert_loads_;
  std::map<std::pair<BoundaryDirection, MicroBatch>, std::shared_ptr<Landing>> expected_;
  NonFiniteLog non_finite_;
};

}  // namespace evermoe
