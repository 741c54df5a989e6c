#include "planner/measured/measured_run.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "config/job_strategy.h"
#include "config/job_topology.h"
#include "parallel/failure_domains.h"
#include "planner/failures/failure_trace.h"

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
  const auto chosen = static_cast<int64_t>(std::lround(measured.save_every_steps));
  return {.every_steps = chosen > 0 ? chosen : job.checkpoint.every_steps,
          .stall_seconds = measured.save_seconds,
          .durable_after_seconds = measured.save_lag_steps * measured.step_seconds};
}

std::vector<CopiedState> held_states(const JobConfig& job) {
  std::vector<int> place;
  for (int rank = 0; rank < job.parallel.world_size(); ++rank)
    place.push_back(place_of_rank(job, rank));
  const int places = places_of(job);
  const auto holders = copy_holders(
      topology_of(job), place, FailureDomains::nodes_only(places),
      {.copies = static_cast<int>(std::min<int64_t>(job.protection.copies, places - 1))});
  std::vector<CopiedState> states;
  if (!holders.ok()) return states;
  for (size_t rank = 0; rank < place.size(); ++rank) {
    CopiedState state{.place = place[rank]};
    for (const Rank holder : holders->holders_of[rank])
      state.holders.push_back(place[static_cast<size_t>(holder.value)]);
    states.push_back(std::move(state));
  }
  return states;
}

// From the undisturbed run's begin and end, taken together, to the first step of this one.
double offset_seconds(const RuntimeProfile& profile, const StrategyProfile& measured) {
  return profile.begin_seconds + profile.end_seconds - measured.begin_seconds;
}

FailureTrace trace_of(const RuntimeProfile& profile, const StrategyProfile& measured, int places,
                      std::span<const PlayedLoss> losses) {
  FailureTrace trace;
  for (int place = 0; place < places; ++place) trace.nodes.push_back(absl::StrCat(place));
  trace.up_at_start.assign(static_cast<size_t>(places), true);
  for (const PlayedLoss& loss : losses) {
    const double seconds = loss.steps * profile.step_seconds + offset_seconds(profile, measured);
    // A worker that is lost before the first step only begins later.
    trace.events.push_back({std::max(0.0, seconds), AvailabilityEvent::Kind::kCrash, loss.places});
    trace.end_seconds = trace.events.back().seconds;
  }
  return trace;
}

absl::Status check_profile(const RuntimeProfile& profile, const JobConfig& job) {
  if (profile.fingerprint != job_fingerprint(job))
    return InvalidInput(
        "profile: found one of another job, allowed: one of this model, layout and settings "
        "(evermoe profile --job)");
  if (profile.find(job.protection.strategy) == nullptr)
    return InvalidInput(absl::StrCat("profile: found none of strategy ",
                                     std::string(to_string(job.protection.strategy)),
                                     ", allowed: one that has measured it"));
  return absl::OkStatus();
}

}  // namespace

int places_of(const JobConfig& job) {
  const auto ranks = job.parallel.world_size();
  return static_cast<int>(job.run.nodes > 1 ? std::min<int64_t>(job.run.nodes, ranks) : ranks);
}

int place_of_rank(const JobConfig& job, int rank) {
  const int places = places_of(job);
  return rank / ((static_cast<int>(job.parallel.world_size()) + places - 1) / places);
}

RunStrategy measured_strategy(const RuntimeProfile& profile, const JobConfig& job) {
  const StrategyProfile* measured = profile.find(job.protection.strategy);
  const StrategyProfile* none = profile.find(StrategyKind::kNone);
  CHECK(measured != nullptr && none != nullptr);
  const Strategy asked = strategy_of(job);
  RunStrategy strategy{.name = std::string(to_string(measured->kind)),
                       .protection = protection_of(measured->kind),
                       .copies = static_cast<int>(job.protection.copies)};
  strategy.step_overhead_share = measured->step_seconds / profile.step_seconds - 1;
  strategy.step_again_seconds = measured->step_again_seconds;
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
  const StrategyProfile& disk = asked.keeps_copies() ? *none : *measured;
  strategy.recovery = {
      .detect = measured->detect_seconds,
      .restart = measured->view_seconds,
      .load_memory = std::max(0.0, measured->load_seconds + measured->settle_seconds),
      .load_durable = std::max(0.0, disk.load_seconds + disk.settle_seconds)};
  return strategy;
}

TrainedJob measured_job(const RuntimeProfile& profile, const JobConfig& job) {
  const int places = places_of(job);
  return {.step_seconds = profile.step_seconds,
          .nodes = places,
          .nodes_least = places,
          .stages = static_cast<int>(job.parallel.stages),
          .states = held_states(job)};
}

absl::StatusOr<PredictedRun> predict_run(const RuntimeProfile& profile, const JobConfig& job,
                                         std::span<const PlayedLoss> losses) {
  RETURN_IF_ERROR(check_profile(profile, job));
  const StrategyProfile& measured = *profile.find(job.protection.strategy);
  const TrainedJob trained = measured_job(profile, job);
  const FailureTrace trace = trace_of(profile, measured, trained.nodes, losses);
  PredictedRun predicted;
  predicted.run = simulate_run(trained, measured_strategy(profile, job), *play_availability(trace),
                               {.steps = job.train.steps});
  predicted.seconds = predicted.run.wall_seconds;
  const double beside =
      measured.begin_seconds + measured.end_seconds - profile.begin_seconds - profile.end_seconds;
  const double useful = static_cast<double>(job.train.steps) * profile.step_seconds;
  predicted.ettr = useful / std::max(predicted.seconds + beside, 1e-9);
  predicted.lost_token_share = predicted.run.lost_share(profile.step_seconds);
  return predicted;
}

}  // namespace evermoe
