#include "recovery/member/restore/gradient_restorer.h"

#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "recovery/member/restore/slot_restore.h"

namespace evermoe {

std::vector<SlotTime> GradientRestorer::gradients_between(Step from, Step to) const {
  std::vector<SlotTime> times;
  for (Step state = from; state < to; state = Step(state.value + 1))
    times.push_back(in_.window.schedule().gradients_of(state));
  return times;
}

absl::StatusOr<std::vector<std::string>> GradientRestorer::begin(const Plan& plan, bool has_state) {
  forget();
  if (has_state) {
    CHECK(in_.trainer.step() >= plan.window && in_.trainer.step() <= plan.state)
        << "state " << in_.trainer.step() << " between " << plan.window << " and " << plan.state;
  }
  std::vector<SlotTime> times =
      gradients_between(has_state ? in_.trainer.step() : plan.window, plan.state);
  if (!has_state) times.insert(times.begin(), {plan.window, 0});
  // The snapshot is restored while the gradients are on their way.
  const auto on_slot = [&](SlotTime time) -> absl::Status {
    if (has_state || time != times.front()) return absl::OkStatus();
    return restore_slot(
        in_.memory.store, in_.rank, time, in_.trainer,
        [this](std::span<const std::byte> position) { return in_.window.take_position(position); });
  };
  ASSIGN_OR_RETURN(WindowFetch::Fetched fetched, in_.fetch.fetch(times, on_slot));
  in_.copies.adopt(times, fetched.asked.value_or(std::vector<Rank>()));
  goal_ = plan.state;
  return std::move(fetched.sources);
}

absl::StatusOr<Record> GradientRestorer::update() {
  const Step state = in_.trainer.step();
  const Step next(state.value + 1);
  fault_point("catch_up/update");
  const auto compare = [&](std::span<const std::byte> position) {
    return annotate(in_.window.compare_position(position),
                    absl::StrCat("gradients of step ", next.value));
  };
  RETURN_IF_ERROR(restore_slot(in_.memory.store, in_.rank,
                               in_.window.schedule().gradients_of(state), in_.trainer, compare));
  ASSIGN_OR_RETURN(Record record, in_.commits.record_of(verdict_commit(next)));
  RETURN_IF_ERROR(in_.trainer.apply_alone(record.combined,
                                          [this](int op) { return in_.copies.wait_read(op); }));
  return record;
}

absl::Status GradientRestorer::complete() {
  if (!goal_) return absl::OkStatus();
  std::vector<int> all(in_.trainer.operators().size());
  std::iota(all.begin(), all.end(), 0);
  RETURN_IF_ERROR(in_.trainer.complete_restore(all));
  goal_.reset();
  return absl::OkStatus();
}

}  // namespace evermoe
