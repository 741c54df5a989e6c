#include "train/step/trainer.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fault_point.h"

namespace evermoe {
namespace {

// A slow disk is no reason to lose a checkpoint.
constexpr absl::Duration kSavePatience = absl::Minutes(30);

std::unique_ptr<Communicator> join_world(Transport& transport, View view, absl::Duration deadline) {
  std::vector<Rank> ranks;
  for (int r = 0; r < transport.size(); ++r) ranks.push_back(Rank(r));
  return std::make_unique<Communicator>(transport, ranks,
                                        CommunicatorOptions{view, kVerdictGroup, deadline});
}

}  // namespace

Trainer::Trainer(const JobConfig& config, const TrainerEnvironment& environment,
                 std::unique_ptr<RankModel> model)
    : config_(config),
      world_(join_world(*environment.transport, environment.view,
                        absl::Seconds(config.run.deadline_seconds))),
      boundary_(*world_),
      model_(std::move(model)),
      durable_(environment, *model_) {
  world_->set_idle_work([this] { return model_->do_idle_work(); });
}

Trainer::~Trainer() = default;

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::create(const JobConfig& config,
                                                         const TrainerEnvironment& environment) {
  ASSIGN_OR_RETURN(auto model, RankModel::create(config, environment,
                                                 absl::Seconds(config.run.deadline_seconds)));
  std::unique_ptr<Trainer> trainer(new Trainer(config, environment, std::move(model)));
  RETURN_IF_ERROR(trainer->durable_.open(DurableState::Opening::kAlone, Step(-1)));
  return trainer;
}

absl::StatusOr<Resumption> Trainer::resume() {
  ASSIGN_OR_RETURN(const Resumption resumption, durable_.resume(*world_, position_));
  RETURN_IF_ERROR(model_->derive_compute());
  return resumption;
}

absl::StatusOr<StepFindings> Trainer::accumulate_gradients() {
  boundary_.begin(verdict_commit(Step(position_.step.value + 1)));
  ASSIGN_OR_RETURN(const StepFindings findings, model_->accumulate_gradients(position_, boundary_));
  RETURN_IF_ERROR(boundary_.finish());
  return findings;
}

absl::StatusOr<StepRecord> Trainer::step(bool drain) {
  ASSIGN_OR_RETURN(StepFindings findings, accumulate_gradients());
  findings.prepared = durable_.saver().prepared();
  findings.drain = drain;
  fault_point("step/before_verdict");
  ASSIGN_OR_RETURN(const StepFindings combined, combine(*world_, findings));
  const StepRecord record = decide(combined, config_.train, position_);
  fault_point("step/after_verdict");
  position_ = advance(position_, record, config_.train);
  if (record.applied) {
    RETURN_IF_ERROR(
        model_->update(record, position_.updates_applied,
                       [](const OperatorState&, FlatRange) { return absl::OkStatus(); }));
  }
  durable_.publish(record.prepared);
  return record;
}

absl::StatusOr<double> Trainer::evaluate() {
  boundary_.begin(evaluation_commit(position_.step));
  ASSIGN_OR_RETURN(const StepFindings own,
                   model_->evaluate(0, model_->evaluation().micro_batches(), boundary_));
  RETURN_IF_ERROR(boundary_.finish());
  double sums[] = {own.loss_sum, own.tokens};
  RETURN_IF_ERROR(annotate(world_->all_reduce<double>(sums, ReduceOp::kSum), "validation loss"));
  position_.validation_loss = sums[0] / sums[1];
  return position_.validation_loss;
}

absl::Status Trainer::save() { return durable_.save(position_); }

absl::Status Trainer::wait_everywhere(const std::function<absl::Status(absl::Duration)>& wait,
                                      const char* what) {
  // Ranks talk after every slice, so that one with a slow disk is not taken for a hung one.
  const absl::Duration slice = absl::Seconds(config_.run.deadline_seconds) / 4;
  enum : int64_t { kDone = 0, kWaiting = 1, kFailed = 2 };
  for (absl::Duration waited; waited < kSavePatience; waited += slice) {
    const absl::Status own = wait(slice);
    int64_t worst[] = {own.ok() ? kDone : absl::IsDeadlineExceeded(own) ? kWaiting : kFailed};
    RETURN_IF_ERROR(annotate(world_->all_reduce<int64_t>(worst, ReduceOp::kMax), what));
    if (worst[0] == kDone) return absl::OkStatus();
    if (worst[0] == kWaiting) continue;
    if (!own.ok() && !absl::IsDeadlineExceeded(own)) return own;
    return Internal(absl::StrCat(what, ": failed on another rank"));
  }
  return Timeout(absl::StrCat(what, ": not done after ", absl::FormatDuration(kSavePatience)));
}

absl::Status Trainer::finish() {
  RETURN_IF_ERROR(
      wait_everywhere([&](absl::Duration slice) { return durable_.saver().wait_prepared(slice); },
                      "writing the checkpoint"));
  int64_t prepared[] = {durable_.saver().prepared().value};
  RETURN_IF_ERROR(annotate(world_->all_reduce<int64_t>(prepared, ReduceOp::kMin), "checkpoint"));
  durable_.publish(Step(prepared[0]));
  return wait_everywhere(
      [&](absl::Duration slice) {
        return world_->index() == 0 ? durable_.saver().wait_published(slice) : absl::OkStatus();
      },
      "publishing the checkpoint");
}

Step Trainer::published() const { return durable_.saver().published(); }

}  // namespace evermoe
