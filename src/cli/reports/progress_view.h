// Shows a run to the person who started it: in a terminal one live line that is drawn again and
// again, elsewhere plain lines now and then; what happens (a worker lost, a restart, a checkpoint,
// an evaluation) is a line of its own with the time since the start, so that the whole reads as a
// story.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/ids.h"
#include "control/launch/run_outcome.h"
#include "env/clock.h"

namespace evermoe {

struct ProgressOptions {
  bool live = false;                                 // `out` is a terminal
  bool quiet = false;                                // show nothing
  std::function<int()> columns = [] { return 80; };  // width of the terminal now
  Step steps;                                        // of the whole job
};

class ProgressView : public RunObserver {
 public:
  // Both must outlive it.
  ProgressView(std::ostream& out, Clock& clock, ProgressOptions options);

  void on_say(const std::string& line) override;
  void on_report(const WorkerReport& report) override;
  void on_log(const std::string& role, const std::string& path,
              const std::vector<std::string>& lines) override;
  // Removes the live line. Nothing may follow.
  void close();

 private:
  void on_step(const WorkerReport& report);
  bool due(absl::Duration now) const;
  std::string status_line(absl::Duration now) const;
  std::string time_left() const;
  std::string clock_prefix(absl::Duration now) const;
  void print_line(const std::string& line);
  void redraw(absl::Duration now);
  void clear();

  std::ostream& out_;
  Clock& clock_;
  const ProgressOptions options_;
  const absl::Duration began_;
  std::optional<WorkerReport> step_;    // the newest of this attempt
  std::deque<absl::Duration> moments_;  // when the newest steps were committed
  std::optional<Step> saved_;
  std::optional<absl::Duration> shown_;  // when a status line was last shown
  bool drawn_ = false;                   // the live line stands in the terminal
};

}  // namespace evermoe
