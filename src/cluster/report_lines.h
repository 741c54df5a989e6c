// Cuts the bytes that arrive from a worker into reports.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cluster/worker_report.h"

namespace evermoe {

// Holds at most one incomplete line of kReportLineBytesMax besides what append() was last given, as
// long as next() is called until it has nothing more.
class ReportLines {
 public:
  void append(const std::string& bytes) { bytes_ += bytes; }

  // The next complete report, nullopt if there is none yet. Corrupt if a line is too long or no
  // report; then, and for ever after, the stream is of no use.
  absl::StatusOr<std::optional<WorkerReport>> next();

 private:
  std::string bytes_;
  size_t begin_ = 0;  // bytes before it have been handed out
  bool broken_ = false;
};

}  // namespace evermoe
