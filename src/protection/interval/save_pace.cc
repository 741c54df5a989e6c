#include "protection/interval/save_pace.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "protection/interval/paced_interval.h"

namespace evermoe {
namespace {

// Enough that one hiccup does not move a median, few enough to follow a machine that changes.
constexpr size_t kStepsKept = 16;
constexpr size_t kSavesKept = 5;

void keep(std::deque<absl::Duration>& all, absl::Duration one, size_t count) {
  all.push_back(one);
  if (all.size() > count) all.pop_front();
}

absl::Duration median(const std::deque<absl::Duration>& all) {
  std::vector<absl::Duration> sorted(all.begin(), all.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

}  // namespace

SavePace::SavePace(double overhead_budget) : overhead_budget_(overhead_budget) {
  CHECK(overhead_budget > 0) << overhead_budget;
}

void SavePace::begin(Step step) {
  begin_ = last_ = step;
  save_.reset();
}

void SavePace::on_step(absl::Duration time) {
  if (!save_) return keep(steps_, time, kStepsKept);
  save_->cost += time - usual_step().value_or(time);
  if (!save_->written) return;
  keep(costs_, std::max(save_->cost, absl::ZeroDuration()), kSavesKept);
  keep(writes_, *save_->written, kSavesKept);
  save_.reset();
}

void SavePace::on_save_begun(absl::Duration now, absl::Duration paused) {
  CHECK(!save_);
  save_ = Save{now, paused, std::nullopt};
}

void SavePace::on_save_ended(absl::Duration now, bool is_on_disk) {
  if (!save_) return;
  if (is_on_disk)
    save_->written = now - save_->began;
  else
    save_.reset();
}

std::optional<absl::Duration> SavePace::usual_step() const {
  if (steps_.empty()) return std::nullopt;
  return median(steps_);
}

int64_t SavePace::wanted() const {
  const auto step = usual_step();
  if (costs_.empty() || !step || *step <= absl::ZeroDuration()) return kFirstInterval;
  return paced_interval({.longer = absl::FDivDuration(median(costs_), *step),
                         .to_disk = absl::FDivDuration(median(writes_), *step)},
                        overhead_budget_);
}

int64_t SavePace::vote(Step next) const {
  const int64_t since = next.value - last_.value;
  return is_saving() ? std::max(wanted(), since + 1) : wanted();
}

void SavePace::on_verdict(Step step, int64_t interval, Step last) {
  last_ = std::max(last_, last);
  if (step.value - last_.value >= interval) last_ = step;
}

}  // namespace evermoe
