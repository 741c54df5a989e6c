// Recorded traces of failures: the texts of public data sets as availability of nodes in time.
//
// Formats (docs in data/planner/README.md):
//   Bamboo, Oobleck   time_ms,add|remove,node             spot instances come and go; names are
//                     never reused
//   InfiniteHBD       time_days,node,event,level,class,desc   faults of a pre-training cluster, may
//                     overlap
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "env/files.h"
#include "planner/failures/availability.h"

namespace evermoe {

struct FailureTrace {
  struct Event {
    double seconds = 0;
    AvailabilityEvent::Kind kind = AvailabilityEvent::Kind::kUp;
    std::vector<int> nodes;  // ascending
  };
  std::vector<std::string> nodes;  // names, in order of appearance
  std::vector<bool> up_at_start;   // by node
  std::vector<Event> events;       // times never fall; at one time nodes come before others go
  double end_seconds = 0;          // what was watched, at least the last event's time

  // Most nodes that are up at once and when they first are, the mean over the time watched, and how
  // often nodes went.
  struct Summary {
    int nodes_max = 0;
    double nodes_max_seconds = 0;
    double nodes_mean = 0;
    int removals = 0;          // events in which nodes went
    int nodes_removed = 0;     // their nodes
    double largest_share = 0;  // lost at once, of those up
  };
  Summary summary() const;
};

inline constexpr int64_t kTraceBytesMax = 64 << 20;

// A node is up from its first "add"; those of the first time stamp are up at the start, which
// becomes time 0. InvalidInput with one line "origin:line: ..." for anything else than the format.
absl::StatusOr<FailureTrace> parse_instance_trace(const std::string& text,
                                                  const std::string& origin);

// `nodes` machines are up from the start, the named ones first; a node is down while any fault of
// it lasts. Faults of level "Software Failure" are crashes. InvalidInput as above, and if the trace
// names more nodes.
absl::StatusOr<FailureTrace> parse_fault_trace(const std::string& text, const std::string& origin,
                                               int nodes);

// Either of the two, by its first line. InvalidInput too for a file that cannot be read.
absl::StatusOr<FailureTrace> load_failure_trace(Files& files, const std::string& path, int nodes);

// The exponential law with as many losses and as many nodes down on average as the trace has: what
// a plan, which needs a law, can take from it. Repairs, where there were none, take no time. Racks
// are not in a trace.
FailureLaw fitted_law(const FailureTrace& trace);

// Plays the trace once. The trace must live longer.
std::unique_ptr<AvailabilitySource> play_availability(const FailureTrace& trace);

}  // namespace evermoe
