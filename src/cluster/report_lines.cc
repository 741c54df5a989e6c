#include "cluster/report_lines.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

absl::StatusOr<std::optional<WorkerReport>> ReportLines::next() {
  if (broken_) return Corrupt("a report before this one was damaged");
  const size_t end = bytes_.find('\n', begin_);
  const size_t length = (end == std::string::npos ? bytes_.size() : end + 1) - begin_;
  if (length > static_cast<size_t>(kReportLineBytesMax)) {
    broken_ = true;
    return Corrupt(absl::StrCat("a report is longer than ", kReportLineBytesMax, " bytes"));
  }
  if (end == std::string::npos) {
    bytes_.erase(0, begin_);
    begin_ = 0;
    return std::optional<WorkerReport>();
  }
  const auto report = decode_report(bytes_.substr(begin_, length));
  begin_ = end + 1;
  broken_ = !report.ok();
  if (broken_) return report.status();
  return std::optional<WorkerReport>(*report);
}

}  // namespace evermoe
