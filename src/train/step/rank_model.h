// One rank's part of the model and what its arithmetic needs: the communicators inside its stage,
// its layers, its rounds and its data. Knows neither verdicts nor checkpoints.
//
// Which part that is follows from who trains (parallel/membership.h) and, if experts move, from
// where they live (experts/migration/expert_balance.h). A rank that rests has no layers and no
// operators.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/training_position.h"
#include "comm/communicator.h"
#include "config/job_config.h"
#include "experts/placement/expert_placement.h"
#include "parallel/membership.h"
#include "parallel/topology.h"
#include "recovery/stage_trainer.h"
#include "train/layers/stage_model.h"
#include "train/state/bucketed_exchange.h"
#include "train/state/gradient_reduction.h"
#include "train/state/optimizer.h"
#include "train/step/batch_reader.h"
#include "train/step/stage_runner.h"
#include "train/step/trainer_environment.h"
#include "train/step/verdict.h"

namespace evermoe {

StateTypes state_types(const TrainConfig& train, at::Device device = at::kCPU);

class RankModel {
 public:
  // Everybody trains, and all weights are zero. The configuration has been validated; `deadline` is
  // for every call inside the stage. InvalidInput if the data is too short.
  static absl::StatusOr<std::unique_ptr<RankModel>> create(const JobConfig& config,
                                                           const TrainerEnvironment& environment,
                                                           absl::Duration deadline,
                                                           const BucketLimits& buckets);

  const JobConfig& config() const { return config_; }
  const Topology& topology() const { return topology_; }  // of all roles
  Role role() const { return role_; }
  const Membership& membership() const { return membership_; }
  bool rests() const { return parts_ == nullptr; }
  // Of the stage's experts.
  const LayerPlacements& placements() const { return placements_; }
  const StateTypes& types() const { return types_; }
  // In the model's order; valid until other lanes train or experts live elsewhere.
  const std::vector<OperatorState*>& operators() const {
    return rests() ? no_operators_ : parts_->operators;
  }

  // Others train, in groups of this view, with their experts as `balance` says once it is settled
  // for them; all weights are zero again.
  void take_membership(const Membership& membership, View view, ExpertBalance& balance);
  // Experts live there from now on; where this rank has others than before all weights are zero
  // again. Settles the balance.
  void take_balance(ExpertBalance& balance);
  // Places layers that are not placed for those who train. Empty unless experts move.
  void settle_balance(ExpertBalance& balance) const;

  // From the state at `step` on these train: its operators come to this rank's part of them.
  // Collective over the roles of the stage that train before or afterwards, in messages of that
  // view; `position` and `balance` become those of the first of them that trained, and the balance
  // is settled for those that train from now on.
  absl::Status change_membership(const Membership& to, View view, Step step, RecordBytes& position,
                                 ExpertBalance& balance);
  // From the state at `step` on experts live there. Collective over the lanes of the stage if that
  // is elsewhere for one of its layers.
  absl::Status move_experts(const ExpertBalance& to, Step step);
  // Whether one of this stage's experts lives elsewhere by this balance.
  bool would_move(const ExpertBalance& to) const {
    return placements_by(membership_, to) != placements_;
  }

  // Computes one of the gradients that are put off, if there is one: for whoever waits for another
  // stage.
  bool do_idle_work() { return deferred_.run_one(); }

  // Where this rank makes numbers that are not finite of finite ones, within
  // accumulate_gradients(): what `meet` throws ends that. Watched only if train.non_finite asks for
  // it.
  void set_meet_origin(OriginWatch::Meet meet) { meet_origin_ = std::move(meet); }
  const BatchReader& batches() const { return *batches_; }
  // Faults for tests, as StageRunner's.
  void corrupt_result();
  void poison(int64_t begin, int64_t end);

  // The communicators inside the stage begin anew in another view.
  void join(View view);

  // ---- collective inside the stage; operators that are frozen (on all its lanes) are left out

  // Gradients of the step that starts from `position`, reduced, and what the verdict needs of them.
  // `probes`: looks for the first number that is not finite, as after a skipped step.
  // `on_reduced` is told of each operator as soon as its gradients are.
  absl::StatusOr<StepFindings> accumulate_gradients(const TrainingPosition& position,
                                                    Boundary& boundary, bool probes,
                                                    const GradientReduction::OnReduced& on_reduced);
  // StageModel::work() of what computes now; 0 of a rank that rests.
  double work() const { return rests() ? 0 : parts_->model->work(); }
  // What the gates chose in the last accumulate_gradients(), over all lanes and with equal bits on
  // them.
  absl::StatusOr<ExpertLoads> expert_loads();
  // This rank's part of `micro_batches` of an evaluation, from number `first` on: loss_sum over its
  // tokens, and how many there are.
  absl::StatusOr<StepFindings> evaluate(int64_t first, int64_t micro_batches, Boundary& boundary);
  const EvaluationOrder& evaluation() const { return batches_->evaluation(); }
  // Updates masters and moments of the active ranges and gathers the compute weights behind it.
  // `before_write` is called before an active range changes. If gathering fails, everything has
  // been updated nevertheless.
  using BeforeUpdate = std::function<absl::Status(const OperatorState&, FlatRange)>;
  absl::Status update(const StepRecord& record, int64_t updates_applied,
                      const BeforeUpdate& before_write);
  // The same without gathering: not collective.
  absl::Status update_own(const StepRecord& record, int64_t updates_applied,
                          const BeforeUpdate& before_write);
  // The first operator with a master weight or moment on this rank that is not finite, as a key.
  int64_t non_finite_state() const;
  // The compute weights of all operators from their masters.
  absl::Status derive_compute() { return derive_compute(operators()); }

 private:
  absl::Status derive_compute(const std::vector<OperatorState*>& some);
  // All operators in their order, those that are updated together side by side.
  std::vector<std::vector<OperatorState*>> update_batches() const;
  absl::Status update_shards(const std::vector<OperatorState*>& batch, const AdamW& optimizer,
                             const BeforeUpdate& before_write);
  using TensorsOf = std::function<std::vector<at::Tensor>(OperatorState&)>;
  int64_t first_non_finite(NonFinitePhase phase, const TensorsOf& tensors_of) const;
  RankModel(const JobConfig& config, const TrainerEnvironment& environment, absl::Duration deadline,
            const BucketLimits& buckets);
  // What a rank that trains has, in a place of the membership.
  struct Parts {
    std::unique_ptr<Communicator> stage_group;  // of tokens
    std::unique_ptr<Communicator> dense_group;  // of gradients and weights, the same members
    std::vector<std::unique_ptr<Communicator>> expert_groups;
    std::unique_ptr<StageModel> model;
    std::unique_ptr<StageRunner> runner;
    std::vector<OperatorState*> operators;
  };
  // By membership_; null: this rank rests. `former`: as StageModel's.
  std::unique_ptr<Parts> new_parts(View view, OperatorStates former = {});
  std::unique_ptr<StageRunner> new_runner(Role place, StageModel& model) const;
  StageGroups join_groups(View view, Parts& parts);
  // Of this stage. REQUIRES: the balance is settled for them.
  LayerPlacements placements_by(const Membership& membership, const ExpertBalance& balance) const;
  // Where operators live.
  struct Owners {
    Membership membership;
    LayerPlacements placements;
    std::vector<Rank> of(const OperatorSpec& spec, int stage) const;
  };
  // The operators whose states stay as they are, tensors and all; all lanes say the same.
  std::set<std::string> staying(const Owners& then, const Owners& now) const;
  // Operators lived there `then`; they come to where membership_ and placements_ say, and parts_
  // are made for that. Compute weights of this rank's operators that have moved are derived.
  absl::Status move_operators(Communicator& movers, const Owners& then);

  const JobConfig config_;
  Transport& transport_;
  const absl::Duration deadline_;
  const BucketLimits buckets_;
  const Topology topology_;
  const Role role_;
  const StateTypes types_;
  Membership membership_;
  LayerPlacements placements_;
  View view_;
  DeferredGradients deferred_;
  std::unique_ptr<BatchReader> batches_;
  OriginWatch::Meet meet_origin_;
  std::unique_ptr<OriginWatch> watch_;                 // null: nobody watches
  std::vector<std::pair<int64_t, int64_t>> poisoned_;  // as runners are told
  std::unique_ptr<Parts> parts_;
  const std::vector<OperatorState*> no_operators_;
};

}  // namespace evermoe
