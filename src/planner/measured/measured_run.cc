#include "planner/measured/measured_run.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "config/copy_level.h"
#include "config/job_strategy.h"
#include "config/job_topology.h"
#include "parallel/job_layout.h"
#include "planner/failures/failure_trace.h"
#include "protection/interval/paced_interval.h"

namespace evermoe {
namespace {

StateProtection protection_of(StrategyKind kind) {
  switch (kind) {
    case StrategyKind::kSparse: return StateProtection::kSparse;
    case StrategyKind::kDense: return StateProtection::kStageMemory;
    case StrategyKind::kPeerMemory: return StateProtection::kPeerMemory;
    case StrategyKind::kGradients: return StateProtection::kGradients;
    case StrategyKind::kPartialExperts: return StateProtection::kPartialExperts;
    case StrategyKind::kCheckfreq:
    case StrategyKind::kNone: return StateProtection::kDurable;
  }
  CHECK(false) << static_cast<int>(kind);
  return {};
}

PeriodicSave durable_saves(const StrategyProfile& measured, const JobConfig& job) {
  const SaveSteps save{.longer = measured.save_seconds / measured.step_seconds,
                       .to_disk = measured.save_lag_steps};
  return {.every_steps = strategy_of(job).tunes_saves
                             ? paced_interval(save, job.protection.overhead_budget)
                             : job.checkpoint.every_steps,
          .stall_seconds = measured.save_seconds,
          .durable_after_seconds = measured.save_lag_steps * measured.step_seconds};
}

int ranks_of(const JobConfig& job) { return static_cast<int>(job.parallel.world_size()); }

std::vector<int> first_nodes(const JobConfig& job) {
  std::vector<int> nodes;
  for (int rank = 0; rank < ranks_of(job); ++rank)
    nodes.push_back(first_node_of(rank, ranks_of(job), static_cast<int>(job.run.nodes)));
  return nodes;
}

std::vector<CopiedState> held_states(const JobConfig& job) {
  const int ranks = ranks_of(job),
            copies = std::min(static_cast<int>(job.protection.copies), ranks - 1);
  const auto domains = domains_in_racks(static_cast<int>(job.run.nodes + job.run.spares),
                                        static_cast<int>(job.run.racks));
  const CopyHolders holders = job_copy_holders(topology_of(job), first_nodes(job), domains, copies,
                                               copy_level_of(job.protection));
  std::vector<CopiedState> states;
  for (int rank = 0; rank < ranks; ++rank) {
    CopiedState state{.place = rank};
    for (const Rank holder : holders.holders_of[static_cast<size_t>(rank)])
      state.holders.push_back(holder.value);
    states.push_back(std::move(state));
  }
  return states;
}

// From the undisturbed run's begin and end, taken together, to the first step of this one.
double offset_seconds(const RuntimeProfile& profile, const StrategyProfile& measured) {
  return profile.begin_seconds + profile.end_seconds - measured.begin_seconds;
}

FailureTrace trace_of(const RuntimeProfile& profile, const JobConfig& job, LostKind lost,
                      std::span<const PlayedLoss> losses) {
  const StrategyProfile& measured = *profile.find(job.protection.strategy);
  FailureTrace trace;
  for (int rank = 0; rank < ranks_of(job); ++rank) trace.nodes.push_back(absl::StrCat(rank));
  trace.up_at_start.assign(trace.nodes.size(), true);
  for (const PlayedLoss& loss : losses) {
    const std::vector<int> ranks =
        lost == LostKind::kNode ? ranks_on(job, loss.victims) : loss.victims;
    if (ranks.empty()) continue;  // nodes that play no role
    const double seconds = loss.steps * profile.step_seconds + offset_seconds(profile, measured);
    // A worker that is lost before the first step only begins later.
    trace.events.push_back({std::max(0.0, seconds), AvailabilityEvent::Kind::kCrash, ranks});
    trace.end_seconds = trace.events.back().seconds;
  }
  return trace;
}

}  // namespace

absl::Status check_profile(const RuntimeProfile& profile, const JobConfig& job,
                           std::span<const LostKind> lost) {
  if (profile.fingerprint != job_fingerprint(job))
    return InvalidInput(
        "profile: found one of another job, allowed: one of this model, layout and settings "
        "(evermoe profile --job)");
  const StrategyProfile* measured = profile.find(job.protection.strategy);
  const std::string name(to_string(job.protection.strategy));
  if (measured == nullptr)
    return InvalidInput(absl::StrCat("profile: found none of strategy ", name,
                                     ", allowed: one that has measured it"));
  for (const LostKind kind : lost) {
    const int64_t from_disk = profile.find(StrategyKind::kNone)->of(kind).failures;
    if (std::min(measured->of(kind).failures, from_disk) == 0)
      return InvalidInput(absl::StrCat("profile: found no loss of a ", to_string(kind), " with ",
                                       name, " and none, allowed: one that has measured it"));
  }
  return absl::OkStatus();
}

std::vector<int> ranks_on(const JobConfig& job, std::span<const int> nodes) {
  std::vector<int> ranks;
  const std::vector<int> first = first_nodes(job);
  for (int rank = 0; rank < ranks_of(job); ++rank) {
    if (std::ranges::count(nodes, first[static_cast<size_t>(rank)]) > 0) ranks.push_back(rank);
  }
  return ranks;
}

RunStrategy measured_strategy(const RuntimeProfile& profile, const JobConfig& job, LostKind lost) {
  const StrategyProfile* measured = profile.find(job.protection.strategy);
  const StrategyProfile* none = profile.find(StrategyKind::kNone);
  CHECK(measured != nullptr && none != nullptr);
  const Strategy asked = strategy_of(job);
  RunStrategy strategy{.name = std::string(to_string(measured->kind)),
                       .protection = protection_of(measured->kind),
                       .copies = static_cast<int>(job.protection.copies)};
  strategy.step_overhead_share = measured->step_seconds / profile.step_seconds - 1;
  const LossProfile& price = measured->of(lost);
  strategy.step_again_seconds = price.step_again_seconds;
  const PeriodicSave durable = durable_saves(*measured, job);
  if (asked.keeps_copies()) {
    strategy.fallback = durable;
    // A step is committed once the copies of the state that it began from are acknowledged.
    strategy.save = {.every_steps = steps_between_snapshots(job.protection),
                     .durable_after_seconds = measured->step_seconds};
    strategy.sparse.window = std::max(1, static_cast<int>(std::lround(measured->window_steps)));
    strategy.sparse.conversion_seconds = (strategy.sparse.window - 1) * profile.step_seconds;
  } else {
    strategy.save = durable;
  }
  if (asked.saves_few_experts) {
    const auto experts = static_cast<int>(job.model.experts);
    const auto kept = static_cast<int>(job.protection.experts_in_memory);
    strategy.lossy = {
        .experts = experts,
        .saved = static_cast<int>(std::min<int64_t>(job.protection.experts_saved, experts)),
        .in_memory = kept == 0 ? experts : std::min(kept, experts)};
  }
  const LossProfile& disk = asked.keeps_copies() ? none->of(lost) : price;
  // Where copies are gone the whole job starts again, and waits before it does.
  const double start_all = std::max(0.0, disk.view_seconds - price.view_seconds);
  strategy.recovery = {
      .detect = price.detect_seconds,
      .restart = price.view_seconds,
      .load_memory = std::max(0.0, price.load_seconds + price.settle_seconds),
      .load_durable = start_all + std::max(0.0, disk.load_seconds + disk.settle_seconds)};
  return strategy;
}

TrainedJob measured_job(const RuntimeProfile& profile, const JobConfig& job) {
  return {.step_seconds = profile.step_seconds,
          .nodes = ranks_of(job),
          .nodes_least = ranks_of(job),
          .stages = static_cast<int>(job.parallel.stages),
          .states = held_states(job)};
}

absl::StatusOr<PredictedRun> predict_run(const RuntimeProfile& profile, const JobConfig& job,
                                         LostKind lost, std::span<const PlayedLoss> losses) {
  RETURN_IF_ERROR(check_profile(profile, job, {&lost, losses.empty() ? 0u : 1u}));
  const StrategyProfile& measured = *profile.find(job.protection.strategy);
  const FailureTrace trace = trace_of(profile, job, lost, losses);
  PredictedRun predicted;
  predicted.run = simulate_run(measured_job(profile, job), measured_strategy(profile, job, lost),
                               *play_availability(trace), {.steps = job.train.steps});
  predicted.seconds = predicted.run.wall_seconds;
  const double beside =
      measured.begin_seconds + measured.end_seconds - profile.begin_seconds - profile.end_seconds;
  const double useful = static_cast<double>(job.train.steps) * profile.step_seconds;
  predicted.ettr = useful / std::max(predicted.seconds + beside, 1e-9);
  predicted.lost_token_share = predicted.run.lost_share(profile.step_seconds);
  return predicted;
}

}  // namespace evermoe
