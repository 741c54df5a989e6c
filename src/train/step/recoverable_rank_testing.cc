#include "train/step/recoverable_rank_testing.h"

#include <mutex>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

RecoverableRank::RecoverableRank(RecoverableTrainer& trainer, Communicator& world)
    : trainer_(trainer), world_(world), boundary_(world) {}

absl::StatusOr<Findings> RecoverableRank::train(const ActiveOperators& active) {
  boundary_.begin(verdict_commit(Step(trainer_.step().value + 1)));
  ASSIGN_OR_RETURN(const Findings own, trainer_.train(active, boundary_));
  RETURN_IF_ERROR(boundary_.finish());
  ASSIGN_OR_RETURN(const StepFindings combined, combine(world_, from_findings(own)));
  return to_findings(combined);
}

absl::Status RecoverableRank::step(const ActiveOperators& active, const BeforeWrite& before_write) {
  ASSIGN_OR_RETURN(const Findings combined, train(active));
  return trainer_.apply(combined, active, before_write);
}

absl::Status RecoverableRank::steps(int count) {
  for (int i = 0; i < count; ++i) RETURN_IF_ERROR(step(all_active()));
  return absl::OkStatus();
}

absl::StatusOr<double> RecoverableRank::evaluate() {
  Findings total;
  for (int64_t batch = 0; batch < trainer_.evaluation_batches(); ++batch) {
    boundary_.begin(evaluation_commit(trainer_.step(), batch));
    ASSIGN_OR_RETURN(const Findings own, trainer_.evaluate(batch, boundary_));
    RETURN_IF_ERROR(boundary_.finish());
    ASSIGN_OR_RETURN(const StepFindings combined, combine(world_, from_findings(own)));
    combine(to_findings(combined), total);
  }
  trainer_.apply_evaluation(total);
  return trainer_.last_validation_loss();
}

absl::Status run_recoverable(const TrainingCluster& cluster, const JobConfig& config,
                             const std::function<absl::Status(RecoverableRank&)>& body) {
  std::mutex mutex;
  absl::Status result;
  InProcessCluster processes(static_cast<int>(config.parallel.world_size()), {});
  processes.run([&](Rank rank, Transport& transport) {
    at::set_num_threads(1);
    const auto play = [&]() -> absl::Status {
      const TrainerEnvironment environment = cluster.environment(transport);
      ASSIGN_OR_RETURN(const auto trainer, RecoverableTrainer::create(config, environment, {}));
      std::vector<Rank> ranks;
      for (int r = 0; r < transport.size(); ++r) ranks.push_back(Rank(r));
      Communicator world(transport, ranks, {environment.view, kVerdictGroup, absl::Seconds(60)});
      RETURN_IF_ERROR(trainer->resume(world).status());
      RecoverableRank self(*trainer, world);
      return body(self);
    };
    const absl::Status status = play();
    const std::lock_guard lock(mutex);
    if (!status.ok()) result.Update(annotate(status, absl::StrCat("rank ", rank.value)));
    transport.close();
  });
  return result;
}

}  // namespace evermoe
