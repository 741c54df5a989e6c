// What people hear of checkpoints that cannot be saved: at once, again while it stays so with
// longer and longer pauses, and when it is over. A full disk refuses every rank, so only one of
// them is named. Pure.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "control/wire/worker_report.h"

namespace evermoe {

class SaveTroubles {
 public:
  static constexpr absl::Duration kPauseMin = absl::Seconds(30);
  static constexpr absl::Duration kPauseMax = absl::Minutes(30);

  // `role` has sent it. A line for people, if there is anything new.
  std::optional<std::string> on_report(absl::Duration now, const std::string& role,
                                       const WorkerReport& report);

 private:
  Step published_{-1};       // newest that is known
  bool is_failing_ = false;  // since then
  absl::Duration began_;     // it did
  absl::Duration told_;
  absl::Duration pause_;  // from then until it is told again
};

}  // namespace evermoe
