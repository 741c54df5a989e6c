// Whether a machine is fit to play a role: what is measured of it, and what must be so. Pure.
//
// The limits catch machines on which a worker could not live. They are far from what a healthy one
// shows under load, because a machine that is refused wrongly is lost for nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace evermoe {

// The complaint about a machine that has not measured anything yet: a disk takes its time.
inline constexpr char kNotMeasured[] = "health: not measured yet";

// Of a folder, by a small file that was written, synced and read back.
struct FolderHealth {
  std::string path;
  // All machines see it: that it is full is not the fault of this one. Saves fail then, and the job
  // goes on.
  bool is_shared = false;
  std::optional<int64_t> free_bytes;  // nullopt: not known
  std::string trouble;                // what went wrong; empty: nothing
  bool is_full = false;               // that is the trouble
  absl::Duration took;
};

// Of a connection of this machine with itself, over which bytes went to and fro.
struct LoopbackHealth {
  std::string kind;     // "127.0.0.1", "AF_UNIX"
  std::string trouble;  // empty: none
};

// How much this machine's date is ahead of the controller's: it is known between two bounds only,
// as far apart as the round trip was long.
struct ClockDifference {
  absl::Duration least, most;
};
// A question left at `asked` and came back at `answered`, by this machine's date, with the other's
// date in between. All since 1970.
ClockDifference clock_difference(absl::Duration asked, absl::Duration other,
                                 absl::Duration answered);

struct NodeHealth {
  std::optional<int64_t> memory_bytes;  // that a process could still get; nullopt: not known
  std::vector<FolderHealth> folders;
  std::vector<LoopbackHealth> loopbacks;
  bool clock_goes_on = true;             // the monotonic one
  std::optional<ClockDifference> clock;  // nullopt: not known
  // What was being measured when the time was over; the rest is not known. Empty: nothing.
  std::string unanswered;
};

struct HealthLimits {
  int64_t memory_bytes = 0;                      // the least that the node's roles take
  int64_t free_bytes = int64_t{1} << 20;         // in a folder of its own
  absl::Duration answer_max = absl::Minutes(1);  // of a disk, however busy
  absl::Duration clock_max = absl::Minutes(5);   // between its date and the controller's
};

// What is wrong, each with what was measured and what is allowed. Empty: it is fit. What is not
// known is no complaint.
std::vector<std::string> judge(const NodeHealth& health, const HealthLimits& limits);

}  // namespace evermoe
