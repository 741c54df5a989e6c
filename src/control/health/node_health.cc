#include "control/health/node_health.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace evermoe {
namespace {

std::string megabytes(int64_t bytes) {
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

void judge_folder(const FolderHealth& folder, const HealthLimits& limits,
                  std::vector<std::string>& complaints) {
  if (!folder.is_shared && folder.free_bytes && *folder.free_bytes < limits.free_bytes) {
    complaints.push_back(absl::StrCat("disk: ", megabytes(*folder.free_bytes), " free in ",
                                      folder.path, ", needed: at least ",
                                      megabytes(limits.free_bytes)));
  } else if (!folder.trouble.empty() && !(folder.is_shared && folder.is_full)) {
    complaints.push_back(absl::StrCat("disk: a small file in ", folder.path,
                                      " cannot be written and read back: ", folder.trouble));
  } else if (folder.took > limits.answer_max) {
    complaints.push_back(absl::StrCat("disk: a small file in ", folder.path, " took ",
                                      absl::FormatDuration(folder.took), ", allowed: at most ",
                                      absl::FormatDuration(limits.answer_max)));
  }
}

void judge_clock(const ClockDifference& clock, const HealthLimits& limits,
                 std::vector<std::string>& complaints) {
  const bool is_ahead = clock.least > limits.clock_max;
  if (!is_ahead && clock.most >= -limits.clock_max) return;
  const absl::Duration off = absl::Trunc(is_ahead ? clock.least : -clock.most, absl::Seconds(1));
  complaints.push_back(absl::StrCat(
      "clock: its date is at least ", absl::FormatDuration(off), is_ahead ? " ahead of" : " behind",
      " the controller's, allowed: at most ", absl::FormatDuration(limits.clock_max)));
}

}  // namespace

ClockDifference clock_difference(absl::Duration asked, absl::Duration other,
                                 absl::Duration answered) {
  return {.least = asked - other, .most = answered - other};
}

std::vector<std::string> judge(const NodeHealth& health, const HealthLimits& limits) {
  std::vector<std::string> complaints;
  if (health.memory_bytes && *health.memory_bytes < limits.memory_bytes) {
    complaints.push_back(absl::StrCat("memory: ", megabytes(*health.memory_bytes),
                                      " available, needed for its roles: at least ",
                                      megabytes(limits.memory_bytes)));
  }
  for (const FolderHealth& folder : health.folders) judge_folder(folder, limits, complaints);
  for (const LoopbackHealth& loopback : health.loopbacks) {
    if (!loopback.trouble.empty())
      complaints.push_back(absl::StrCat("network: it does not reach itself over ", loopback.kind,
                                        ": ", loopback.trouble));
  }
  if (!health.clock_goes_on) complaints.push_back("clock: its monotonic clock stands still");
  if (health.clock) judge_clock(*health.clock, limits, complaints);
  if (!health.unanswered.empty()) {
    complaints.push_back(absl::StrCat(health.unanswered, ": no answer within ",
                                      absl::FormatDuration(limits.answer_max)));
  }
  return complaints;
}

}  // namespace evermoe
