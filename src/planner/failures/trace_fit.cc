// Files of failure_trace.h, and the law that a trace looks like.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "planner/failures/failure_trace.h"

namespace evermoe {
namespace {

using Kind = AvailabilityEvent::Kind;

struct Totals {
  double up_seconds = 0;  // of all nodes
  int crashes = 0;
  int losses = 0;  // of nodes
  int64_t returns = 0;
};

Totals totals_of(const FailureTrace& trace) {
  Totals totals;
  auto up = std::count(trace.up_at_start.begin(), trace.up_at_start.end(), true);
  double last = 0;
  for (const FailureTrace::Event& event : trace.events) {
    totals.up_seconds += static_cast<double>(up) * (event.seconds - last);
    last = event.seconds;
    const int nodes = static_cast<int>(event.nodes.size());
    if (event.kind == Kind::kCrash) {
      totals.crashes += nodes;
    } else if (event.kind == Kind::kUp) {
      up += nodes;
      totals.returns += nodes;
    } else {
      up -= nodes;
      totals.losses += nodes;
    }
  }
  totals.up_seconds += static_cast<double>(up) * (trace.end_seconds - last);
  return totals;
}

}  // namespace

FailureLaw fitted_law(const FailureTrace& trace) {
  const Totals totals = totals_of(trace);
  const int failures =
      std::max(1, totals.losses + totals.crashes);  // none at all: one would have come at the end
  FailureLaw law{.node_mtbf_seconds = std::max(1.0, totals.up_seconds) / failures};
  law.crash_share = static_cast<double>(totals.crashes) / failures;
  // Nodes that go never come back under their names where instances are rented: what counts is how
  // many of the most that were ever there are missing on average.
  const FailureTrace::Summary summary = trace.summary();
  const double missing_seconds = (summary.nodes_max - summary.nodes_mean) * trace.end_seconds;
  if (totals.losses > 0 && totals.returns > 0) law.repair_seconds = missing_seconds / totals.losses;
  return law;
}

absl::StatusOr<FailureTrace> load_failure_trace(Files& files, const std::string& path, int nodes) {
  const absl::StatusOr<std::string> text = read_file(files, path, kTraceBytesMax);
  if (absl::IsNotFound(text.status()))
    return InvalidInput(absl::StrCat(path, ": no such file, allowed: a failure trace"));
  if (!text.ok()) return InvalidInput(std::string(text.status().message()));
  return absl::StartsWith(*text, "time_days,") ? parse_fault_trace(*text, path, nodes)
                                               : parse_instance_trace(*text, path);
}

}  // namespace evermoe
