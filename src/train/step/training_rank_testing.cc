#include "train/step/training_rank_testing.h"

#include <memory>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "train/step/verdict.h"

namespace evermoe {
namespace {

constexpr View kView(1);  // the only one
constexpr int kClosingsMax = 1000;

Communicator join_world(Transport& transport) {
  std::vector<Rank> ranks;
  for (int r = 0; r < transport.size(); ++r) ranks.push_back(Rank(r));
  return {transport, ranks, {kView, kVerdictGroup, absl::Seconds(60)}};
}

void log_failure(View, const absl::Status& status) { log_warning(std::string(status.message())); }

}  // namespace

TrainingRank::TrainingRank(Trainer& trainer, Transport& transport)
    : trainer_(trainer),
      world_(join_world(transport)),
      wake_(transport, 1),
      sender_(transport, log_failure),
      views_(wake_, /*patience=*/absl::Seconds(1), /*ask_again=*/absl::Seconds(1)),
      memory_(int64_t{1} << 30, 0),
      boundary_({.transport = transport,
                 .sender = sender_,
                 .views = views_,
                 .log = memory_.log,
                 .received = memory_.received,
                 .witnesses = witnesses_,
                 .report_trouble = log_failure,
                 .idle_work = [&trainer] { return trainer.do_idle_work(); }}) {
  Plan plan;
  plan.view = kView;
  views_.stop(kView);
  views_.open(std::make_shared<const Plan>(plan), /*restarts=*/true);
  CHECK_OK(views_.next_start().status());
  trainer_.join_stage(kView);
}

absl::StatusOr<Findings> TrainingRank::agree(Findings own) {
  RETURN_IF_ERROR(annotate(world_.all_reduce<double>(own.sums, ReduceOp::kSum), "verdict"));
  RETURN_IF_ERROR(annotate(world_.all_reduce<int64_t>(own.minima, ReduceOp::kMin), "verdict"));
  return own;
}

absl::StatusOr<Findings> TrainingRank::train(const ActiveOperators& active,
                                             const OnReduced& on_reduced) {
  boundary_.begin(verdict_commit(Step(trainer_.step().value + 1)));
  ASSIGN_OR_RETURN(Findings own, trainer_.train(active, boundary_, on_reduced));
  finish();
  return agree(std::move(own));
}

// Nobody goes back, and no view opens.
void TrainingRank::finish() {
  boundary_.finish();
  memory_.clear_boundaries_and_snapshots();
}

absl::Status TrainingRank::step(const ActiveOperators& active, const BeforeWrite& before_write) {
  ASSIGN_OR_RETURN(const Findings combined, train(active));
  return trainer_.apply(combined, active, before_write);
}

absl::Status TrainingRank::steps(int count) {
  for (int i = 0; i < count; ++i) RETURN_IF_ERROR(step(all_active()));
  return absl::OkStatus();
}

absl::StatusOr<double> TrainingRank::evaluate() {
  Findings total;
  for (int64_t batch = 0; batch < trainer_.evaluation_batches(); ++batch) {
    boundary_.begin(evaluation_commit(trainer_.step(), batch));
    ASSIGN_OR_RETURN(Findings own, trainer_.evaluate(batch, boundary_));
    finish();
    ASSIGN_OR_RETURN(const Findings combined, agree(std::move(own)));
    combine(combined, total);
  }
  trainer_.apply_evaluation(total);
  return trainer_.last_validation_loss();
}

absl::Status TrainingRank::close() {
  for (int tries = 0; tries < kClosingsMax; ++tries) {
    ASSIGN_OR_RETURN(Findings own, trainer_.close());
    ASSIGN_OR_RETURN(const Findings combined, agree(std::move(own)));
    if (trainer_.is_closed(combined)) return absl::OkStatus();
  }
  return absl::DeadlineExceededError("it is never closed");
}

}  // namespace evermoe
