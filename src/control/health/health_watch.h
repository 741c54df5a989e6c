// When a node measures its health, and the thread that does it: a disk that does not answer must
// not keep the node waiting, and cannot be called back.
//
//   due --look()--> measuring --(measured, or no answer in time)--> take() --on_verdict()--> due
//
// Threads: one at a time, but for the measurement.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "control/health/node_health.h"
#include "control/wire/mailbox.h"

namespace evermoe {

struct HealthPauses {
  // After a verdict that a machine is not fit; after each further one twice the pause before, up to
  // `longest`: a job that waits for it to be fit waits longer (ControllerOptions::fit_max).
  absl::Duration first = absl::Seconds(2);
  absl::Duration longest = absl::Seconds(10);
  absl::Duration of_fit = absl::Minutes(1);
};

// When the next measurement is due. Pure.
class HealthSchedule {
 public:
  explicit HealthSchedule(HealthPauses pauses = {}) : pauses_(pauses), pause_(pauses.first) {}
  absl::Duration due() const { return due_; }
  void on_verdict(absl::Duration now, bool is_fit);

 private:
  const HealthPauses pauses_;
  absl::Duration due_ = -absl::InfiniteDuration();
  absl::Duration pause_;  // after the next verdict that it is not fit
};

class HealthWatch {
 public:
  // Runs on a thread of its own, also beside the end of the watch: it owns, or outlives, what it
  // uses. It says what it begins with.
  using Measure = std::function<NodeHealth(const std::function<void(const std::string&)>& on_part)>;
  HealthWatch(Measure measure, absl::Duration answer_max);
  // Waits a moment for a measurement under way; one that hangs is left behind.
  ~HealthWatch();
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;

  // Readable when there is something to take.
  int fd() const { return shared_->measured.fd(); }
  // Begins a measurement if one is due and none is under way.
  void look(absl::Duration now);
  // What has been measured since the last call, if anything. When a measurement takes longer than
  // `answer_max`: once, what it hangs at; what it gives later counts, too.
  std::optional<NodeHealth> take(absl::Duration now);
  void on_verdict(absl::Duration now, bool is_fit) { schedule_.on_verdict(now, is_fit); }

 private:
  static constexpr size_t kMeasuredMax = 2;  // one is taken before the next begins
  struct Shared {
    Mutex mutex;
    CondVar changed;
    bool is_measuring ABSL_GUARDED_BY(mutex) = false;
    std::string part ABSL_GUARDED_BY(mutex);
    Mailbox<NodeHealth> measured{kMeasuredMax};
  };

  const Measure measure_;
  const absl::Duration answer_max_;
  const std::shared_ptr<Shared> shared_;
  HealthSchedule schedule_;
  std::optional<absl::Duration> began_;  // of the measurement that has not been told of
};

}  // namespace evermoe
