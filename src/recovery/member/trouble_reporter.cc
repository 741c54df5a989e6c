#include "recovery/member/trouble_reporter.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"

namespace evermoe {

void TroubleReporter::send(View view, const absl::Status& status, Trouble trouble) {
  // What a process that ends runs into is its own doing.
  if (views_.newest_view() != view || views_.has_ended()) return;
  trouble.view = view;
  trouble.stage_epoch = views_.standing().stage_epoch;
  trouble.rank = rank_;
  trouble.accused = accused_rank(status);
  trouble.what = std::string(status.message());
  const PlanPointer plan = views_.plan();
  {
    const MutexLock lock(mutex_);
    const bool is_open = opening_ == view || (plan != nullptr && plan->view == view);
    if (newest_ && *newest_ == trouble) return;
    if (is_open) newest_ = trouble;
  }
  log_warning(absl::StrCat("view ", view.value, ": ", trouble.what));
  control_.send(std::move(trouble));
}

void TroubleReporter::on_opening(View view) {
  const MutexLock lock(mutex_);
  opening_ = view;
}

void TroubleReporter::repeat() {
  std::optional<Trouble> trouble;
  {
    const MutexLock lock(mutex_);
    trouble = newest_;
  }
  if (trouble && trouble->view == views_.newest_view()) control_.send(*std::move(trouble));
}

}  // namespace evermoe
