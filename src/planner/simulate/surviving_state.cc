#include "planner/simulate/surviving_state.h"

#include <algorithm>
#include <utility>

namespace evermoe {
namespace {

bool has_saves(StateProtection protection) {
  return protection != StateProtection::kSparse && protection != StateProtection::kReplicas;
}

bool survives_only_with_copies(StateProtection protection) {
  return protection != StateProtection::kDurable && protection != StateProtection::kPartialExperts;
}

}  // namespace

SurvivingState::SurvivingState(const TrainedJob& job, const RunStrategy& strategy)
    : job_(job),
      strategy_(strategy),
      clock_rule_(
          job.step_seconds * (1 + strategy.step_overhead_share),
          has_saves(strategy.protection) ? strategy.save : PeriodicSave{},
          survives_only_with_copies(strategy.protection) ? strategy.fallback : PeriodicSave{}),
      ages_(strategy.lossy) {}

void SurvivingState::note_holders(const JobPlaces& places) {
  if (strategy_.protection == StateProtection::kReplicas) holders_ = places.filled_places();
}

void SurvivingState::note_saves(double clock) {
  if (has_saves(strategy_.protection)) saved_ = std::max(saved_, new_save(strategy_.save, clock));
  if (survives_only_with_copies(strategy_.protection))
    base_ = std::max(base_, new_save(strategy_.fallback, clock));
}

// A save that is under way at an interruption is lost, so one from before the run was last resumed
// counts only if it was noted then.
int64_t SurvivingState::new_save(const PeriodicSave& save, double clock) const {
  const int64_t newest = clock_rule_.newest_usable(save, clock);
  return newest > resumed_at_ ? newest : 0;
}

void SurvivingState::on_recovered(double clock, std::vector<int> lost) {
  bare_ = std::move(lost);
  bare_until_ = clock + static_cast<double>(copies_again_steps()) * job_.step_seconds;
  resumed_at_ = clock_rule_.position(clock).steps;
}

// Steps after a recovery until copies are where they should be.
int64_t SurvivingState::copies_again_steps() const {
  switch (strategy_.protection) {
    case StateProtection::kSparse: return strategy_.sparse.window + 1 + strategy_.sparse.lag_steps;
    case StateProtection::kPeerMemory:
    case StateProtection::kStageMemory:
    case StateProtection::kGradients: return strategy_.save.every_steps;
    default: return 0;
  }
}

SurvivingState::Restored SurvivingState::restore(double clock, std::span<const int> lost,
                                                 const JobPlaces& places) {
  const RecoverySeconds& times = strategy_.recovery;
  if (clock >= bare_until_) bare_.clear();
  if (survives_only_with_copies(strategy_.protection) && !survives(lost, places))
    return fall_back(clock);
  switch (strategy_.protection) {
    case StateProtection::kSparse: {
      const double load_of_base = start_ > 0 ? times.load_durable : 0;
      const double load = has_window(clock) ? times.load_memory : load_of_base;
      return {.clock = clock, .seconds = load + catch_up_seconds(clock, lost, places)};
    }
    case StateProtection::kReplicas:
    case StateProtection::kGradients:
      return back_to(clock, clock_rule_.position(clock).steps, times.load_memory);
    case StateProtection::kStageMemory: return catch_up_from_save(clock, lost, places);
    case StateProtection::kPeerMemory:
      if (strategy_.step_again_seconds > 0) return catch_up_from_save(clock, lost, places);
      return back_to(clock, saved_, load_of_copies());
    case StateProtection::kPartialExperts: {
      Restored restored = back_to(clock, saved_, times.load_durable);
      if (strategy_.save.every_steps > 0)
        restored.lost_steps = ages_.fault(saved_, strategy_.save.every_steps,
                                          static_cast<double>(lost.size()) / job_.nodes);
      return restored;
    }
    case StateProtection::kDurable: return back_to(clock, saved_, times.load_durable);
  }
  return {};
}

bool SurvivingState::survives(std::span<const int> lost, const JobPlaces& places) const {
  if (strategy_.protection == StateProtection::kReplicas) {
    return replicas_survive(holders_, lost, job_.stages, strategy_.copies + 1, places.places());
  }
  if (job_.states.empty()) return places.copies_survive(lost, bare_, strategy_.copies);
  const auto is_gone = [&](int place) {
    return std::ranges::binary_search(lost, place) || std::ranges::binary_search(bare_, place);
  };
  return std::ranges::none_of(job_.states, [&](const CopiedState& state) {
    return std::ranges::binary_search(lost, state.place) &&
           std::ranges::all_of(state.holders, is_gone);
  });
}

SurvivingState::Restored SurvivingState::back_to(double clock, int64_t steps,
                                                 double seconds) const {
  return {.clock = std::min(clock, clock_rule_.at(steps)), .seconds = seconds};
}

SurvivingState::Restored SurvivingState::fall_back(double clock) {
  saved_ = start_ = base_;
  Restored restored = back_to(clock, base_, strategy_.recovery.load_durable);
  restored.is_fallback = true;
  return restored;
}

// The end of the newest complete window. A step's copies have arrived lag steps after the end of
// the next.
int64_t SurvivingState::window_end(double clock) const {
  const int64_t complete = clock_rule_.position(clock).steps - 1 - strategy_.sparse.lag_steps;
  return complete < 0 ? 0 : complete / strategy_.sparse.window * strategy_.sparse.window;
}

// Whether that window began after the state that training last went back to.
bool SurvivingState::has_window(double clock) const {
  return window_end(clock) - strategy_.sparse.window >= start_;
}

// Of a step that the stages of these places run again.
double SurvivingState::step_again(std::span<const int> lost, const JobPlaces& places) const {
  if (strategy_.step_again_seconds > 0) return strategy_.step_again_seconds;
  return job_.stage_share(std::max(1, places.adjacent_stages(lost, job_.stages))) *
         job_.step_seconds;
}

// Before there are copies all go back to the state that the job began from, by the messages since
// then; not to a newer durable save.
double SurvivingState::load_of_copies() const {
  return saved_ > start_ ? strategy_.recovery.load_memory : strategy_.recovery.load_durable;
}

SurvivingState::Restored SurvivingState::catch_up_from_save(double clock, std::span<const int> lost,
                                                            const JobPlaces& places) const {
  const double steps = clock_rule_.position(clock).progress() - static_cast<double>(saved_);
  return {.clock = clock, .seconds = load_of_copies() + steps * step_again(lost, places)};
}

double SurvivingState::catch_up_seconds(double clock, std::span<const int> lost,
                                        const JobPlaces& places) const {
  const double progress = clock_rule_.position(clock).progress(), again = step_again(lost, places);
  if (!has_window(clock)) return again * (progress - static_cast<double>(start_));
  const double steps = progress - static_cast<double>(window_end(clock));
  return again * (strategy_.sparse.conversion_seconds / job_.step_seconds + steps);
}

}  // namespace evermoe
