// The trainer: recovery's StageTrainer with torch.
//
// It decides nothing: recovery/member/member.h says what to run, what to restore and which record a
// commit had.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protection/interval/save_pace.h"
#include "recovery/stage_trainer.h"
#include "train/state/durable_state.h"
#include "train/state/operator_shards.h"
#include "train/step/divergence.h"
#include "train/step/examiner.h"
#include "train/step/partial_checkpoints.h"
#include "train/step/rank_model.h"
#include "train/step/trainer_environment.h"
#include "train/step/verdict.h"

namespace evermoe {

struct TrainerOptions {
  // Of every call inside the stage.
  absl::Duration stage_deadline = kCallMax;
  // Asked once a step on the training thread: is this process asked to stop?
  std::function<bool()> drain_requested = [] { return false; };
  // How gradients and compute weights travel inside the stage; the same on all its ranks.
  BucketLimits buckets;
  // Saving and publishing return when they are done, so that a simulated run repeats exactly.
  bool waits_for_files = false;
};

class Trainer final : public StageTrainer {
 public:
  // The configuration has been validated; what the environment points to outlives the trainer. All
  // weights are zero and nothing is saved before resume() or a restore. InvalidInput if the data is
  // too short.
  static absl::StatusOr<std::unique_ptr<Trainer>> create(const JobConfig& config,
                                                         const TrainerEnvironment& environment,
                                                         TrainerOptions options);

  const std::vector<StageOperator>& operators() const override { return shards_.inventory(); }
  int64_t boundary_bytes() const override;
  void join_stage(View epoch) override {
    view_ = epoch;
    model_->join(epoch);
  }
  const Membership& membership() const override { return model_->membership(); }
  void take_membership(const Membership& membership) override;
  void rest_at(Step step, const Findings& verdict) override;
  absl::Status change_membership(const Membership& to, View view, RecordBytes& position) override;
  bool may_move_experts(Step state) const override;
  bool moves_experts() const override;
  absl::Status move_experts() override;
  Step experts_moved() const override { return experts_moved_; }
  absl::StatusOr<std::string> resume(Communicator& world) override;
  RunOrigin run_origin() const override { return run_; }
  void take_run_origin(const RunOrigin& run) override { run_ = run; }
  absl::Status restore_base(Step base) override;
  void forget_base() override;
  void capture(int operator_index, SnapshotKind kind, int64_t offset,
               std::span<std::byte> into) const override;
  std::unique_ptr<CopyUnderWay> begin_capture(int operator_index, SnapshotKind kind, int64_t offset,
                                              std::span<std::byte> into,
                                              const WrittenState& written) const override;
  WrittenState written() const override;
  std::shared_ptr<std::byte[]> capture_memory(size_t bytes) const override;
  void restore(int operator_index, SnapshotKind kind, int64_t offset,
               std::span<const std::byte> from) override;
  absl::Status complete_restore(const std::vector<int>& operator_indices) override;
  Step step() const override { return position_.step; }
  RecordBytes position() const override;
  absl::Status set_position(const RecordBytes& position) override;
  absl::StatusOr<Findings> train(const ActiveOperators& active, Boundary& boundary,
                                 const OnReduced& on_reduced) override;
  double work() const override { return work_; }
  bool do_idle_work() override { return model_->do_idle_work(); }
  const ExpertLoads& expert_loads() const override { return expert_loads_; }
  absl::Status apply(const Findings& combined, const ActiveOperators& active,
                     const BeforeWrite& before_write) override;
  absl::Status apply_alone(const Findings& combined, const BeforeWrite& before_write) override;
  bool is_evaluated(Step step) const override;
  int64_t evaluation_batches() const override;
  absl::StatusOr<Findings> evaluate(int64_t batch, Boundary& boundary) override;
  void apply_evaluation(const Findings& combined) override;
  bool is_saved(Step step) const override;
  absl::Status save() override;
  bool is_finished() const override;
  absl::StatusOr<Findings> close() override;
  bool is_closed(const Findings& combined) override;

  // ---- for observers of the job, on the training thread

  const StepRecord& last_record() const { return record_; }  // of the last apply()
  double last_validation_loss() const { return position_.validation_loss; }
  // Share of the same targets that the model held to be the likeliest.
  double last_validation_accuracy() const { return validation_accuracy_; }
  // Whether the run ends here because somebody was asked to stop.
  bool is_drained() const {
    return is_drained_ && position_.step.value < model_->config().train.steps;
  }
  const TrainingPosition& training_position() const { return position_; }
  // The newest state at which experts of any stage have moved, as this process has seen it.
  const std::optional<ExpertMove>& last_move() const { return last_move_; }
  // Newest checkpoint that this process has published (rank 0 only); Step(-1) for none.
  Step published() const { return durable_.is_open() ? durable_.saver().published() : Step(-1); }
  // ---- faults for tests, on the training thread: StageRunner's
  void corrupt_result() { model_->corrupt_result(); }
  void poison(int64_t begin, int64_t end) { model_->poison(begin, end); }

  // This rank's operators, for tests and tools.
  const std::vector<OperatorState*>& operator_states() const { return model_->operators(); }

 private:
  Trainer(const TrainerEnvironment& environment, TrainerOptions options,
          std::unique_ptr<RankModel> model);
  OperatorShards new_shards() const;
  enum class Gathers : uint8_t { kNow, kLater };
  absl::Status apply(const Findings& combined, const ActiveOperators& active,
                     const BeforeWrite& before_write, Gathers gathers);
  // Opens the saver of a process that has not resumed with the others.
  absl::Status open_saver();
  // Every rank has this checkpoint on disk.
  absl::Status note_prepared(Step prepared);
  absl::Status note_prepared_locally(Step prepared);
  absl::Status publish(Step prepared);
  // save(), with the errors that it outlives.
  absl::Status begin_save();
  absl::Status save_state();
  // Of checkpoints with a few experts: begins the one that waits in memory, if its time has come.
  absl::Status save_waiting();
  // To this machine's own disk, where that is due. What it refuses is told and outlived.
  bool is_saved_locally(Step step) const;
  bool is_shared(Step step) const;  // saved where all ranks see it
  absl::Status save_locally();
  // Of saves whose interval is tuned: tells the pace whether the last one is still under way.
  void follow_save();
  // At the end: saves the present state, and waits for so long until it is on disk.
  absl::Status finish_files(absl::Duration slice);
  // Newest checkpoint that this rank knows to have on disk.
  Step prepared() const;
  // What the gates of this stage chose, as the stage's first lane says it.
  void add_choices(StepFindings& findings) const;
  size_t moe_layers() const;  // of the model
  absl::Status set_balance(std::span<const int64_t> numbers);
  // That lanes of all stages lack for this balance.
  int64_t bytes_to_move(const ExpertBalance& to) const;
  // With as many numbers at every commit.
  Findings as_findings(StepFindings findings) const;
  // Looks at the state before it is saved: a state that is not finite must not be published.
  bool is_state_sound();
  // Of the step under way, in which this rank has made a number that is not finite. Throws
  // StatusError.
  void meet_origin(const NonFinite& place);
  std::vector<ExaminedSample> samples_at(const NonFinite& place) const;
  // That the record's step has found to be at fault, if that is wanted.
  void quarantine_samples();
  // Leaves the record of it and says so.
  absl::Status end_diverged(const Divergence& divergence) const;

  const TrainerEnvironment environment_;
  const TrainerOptions options_;
  std::unique_ptr<RankModel> model_;
  View view_{0};  // that the stage has last joined
  RunOrigin run_;
  std::optional<SavePace> pace_;               // of saves, if the strategy tunes it
  std::optional<PartialCheckpoints> partial_;  // if the strategy saves a few experts
  std::optional<Examiner> examiner_;           // if train.non_finite asks for it
  double validation_accuracy_ = 0;
  DurableState durable_;
  OperatorShards shards_;
  const std::unique_ptr<CopyMemory> capture_memory_;  // null: on a CPU
  TrainingPosition position_;
  ExpertLoads expert_loads_;
  double work_ = 0;                      // of the last train()
  Step experts_moved_{-1};               // of this stage
  std::optional<ExpertMove> last_move_;  // of any
  int64_t skipped_in_row_ = 0;           // a part of the position, but not of what is saved durably
  bool is_drained_ = false;
  StepRecord record_;
  absl::Duration step_began_;
  Step base_{-1};                          // a checkpoint that restore_base() may be asked for
  Step began_{-1};                         // the newest one that this process has begun from
  Step saved_{-1};                         // newest that this process has copied or begun to save
  Step saved_locally_{-1};                 // newest that it has begun to save there
  Step agreed_{-1};                        // newest that a record says all ranks have on disk
  int close_failures_ = 0;                 // that the disk was asked in vain to take the last state
  int64_t non_finite_state_ = kAllFinite;  // what was found in the state, for the next verdict
  absl::Status file_status_;  // of publishing, to be reported by the next call that can
};

}  // namespace evermoe
