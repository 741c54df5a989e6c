#include "control/launch/save_troubles.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace evermoe {

std::optional<std::string> SaveTroubles::on_report(absl::Duration now, const std::string& role,
                                                   const WorkerReport& report) {
  if (report.kind == WorkerReport::Kind::kPublished) {
    published_ = std::max(published_, report.step);
    if (!std::exchange(is_failing_, false)) return std::nullopt;
    return absl::StrCat("checkpoints are saved again: step ", report.step.value, " is on disk");
  }
  if (report.kind != WorkerReport::Kind::kSaveFailed) return std::nullopt;
  const std::string what = absl::StrCat("worker ", role, " cannot save the checkpoint of step ",
                                        report.step.value, ": ", report.text);
  const std::string newest = published_ >= Step(0)
                                 ? absl::StrCat("the newest one is of step ", published_.value)
                                 : "this run has saved none";
  if (!std::exchange(is_failing_, true)) {
    began_ = told_ = now;
    pause_ = kPauseMin;
    return absl::StrCat("warning: ", what, "; training goes on; ", newest);
  }
  if (now < told_ + pause_) return std::nullopt;
  told_ = now;
  pause_ = std::min(2 * pause_, kPauseMax);
  return absl::StrCat("warning: for ",
                      absl::FormatDuration(absl::Trunc(now - began_, absl::Seconds(1))),
                      " no checkpoint could be saved; ", newest, "; the last try: ", what);
}

}  // namespace evermoe
