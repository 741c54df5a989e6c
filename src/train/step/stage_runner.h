// Runs one stage's rounds of a step: which micro-batch, from whom, to whom, in which order.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/training_position.h"
#include "parallel/membership.h"
#include "parallel/pipeline_schedule.h"
#include "recovery/stage_trainer.h"
#include "tensor/host_bytes.h"
#include "train/layers/finite_probe.h"
#include "train/layers/origin_watch.h"
#include "train/layers/stage_model.h"
#include "train/step/batch_reader.h"
#include "train/step/verdict.h"

namespace evermoe {

class StageRunner {
 public:
  // All references, and the watch, must outlive the runner. `role` is a place of the membership. No
  // `watch`: nobody watches.
  StageRunner(const TrainConfig& train, const Membership& membership, Role role,
              const BatchReader& batches, StageModel& model, OriginWatch* watch = nullptr);

  // Accumulates the gradients of the step that starts from `position`, each micro-batch's loss
  // weighted with loss_scale / micro_batches. `probes`: looks for the first number that is not
  // finite. `added` is called within the last backward pass. Throws StatusError.
  StepFindings run_step(const TrainingPosition& position, bool probes, Boundary& boundary,
                        const GradientsAdded& added);
  // What this lane's micro-batches of the last run_step() chose, added in their order.
  const ExpertLoads& expert_loads() const { return expert_loads_; }

  // ---- faults for tests
  // One number of what is computed next in a step, the way forward or back, is not finite.
  void corrupt_result() { corrupts_next_ = true; }
  // Of a micro-batch that reads of these tokens of the training part the loss is not finite.
  void poison(int64_t begin, int64_t end) { poisoned_.emplace_back(begin, end); }

  // Runs this lane's part of `micro_batches` of an evaluation, from number `first_number` on:
  // loss_sum is over tokens, of which there are `tokens` (both zero but on the last stage). Their
  // boundary messages count from 0. Throws StatusError.
  StepFindings run_validation(int64_t first_number, int64_t micro_batches, Boundary& boundary);

 private:
  enum class Phase { kTraining, kValidation };

  bool first() const { return role_.stage == 0; }
  bool last() const { return role_.stage == membership_.lanes().stages() - 1; }
  // The micro-batch of this lane in a round; nullopt if the round has none for it.
  std::optional<MicroBatch> micro_batch_of(int round, int64_t micro_batches) const;
  MicroBatchTokens tokens_of(Phase phase, Step step, MicroBatch micro_batch) const;
  int64_t sequences_of(Phase phase, MicroBatch micro_batch) const;

  // What the step tells of a micro-batch. It stays on the device until the step is computed: who
  // reads a number waits for all that was started before it.
  struct Numbers {
    std::optional<MicroBatch> micro_batch;
    at::Tensor loss;            // last stage
    at::Tensor auxiliary_loss;  // may be undefined
    int64_t gates = 0;
    std::vector<at::Tensor> loads, probabilities;  // MicroBatchGraph
  };
  Numbers numbers_of(std::optional<MicroBatch> micro_batch, const MicroBatchGraph& graph) const;
  void read(const Numbers& numbers, StepFindings& findings);
  // Returns the sum over the gates of largest / mean expert load.
  double read_loads(const Numbers& numbers);

  void corrupt_if_asked(const at::Tensor& result);
  bool is_poisoned(Step step, MicroBatch micro_batch) const;
  std::string first_operator() const { return model_.operators().front()->spec().name; }
  std::string last_operator() const { return model_.operators().back()->spec().name; }

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
  const Membership& membership_;
  const Role role_;
  const BatchReader& batches_;
  StageModel& model_;
  OriginWatch* const watch_;
  const std::vector<RoundOperation> order_;
  ExpertLoads expert_loads_;
  std::map<std::pair<BoundaryDirection, MicroBatch>, std::shared_ptr<Landing>> expected_;
  NonFiniteLog non_finite_;
  std::vector<int64_t> quarantined_;  // windows, of the step under way
  bool corrupts_next_ = false;
  std::vector<std::pair<int64_t, int64_t>> poisoned_;  // tokens
};

}  // namespace evermoe
