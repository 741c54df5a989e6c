// What happens to the nodes of a cluster in time, whatever the job on it does.
//
// A source yields events in time order. It may draw them from a law or read them from a recorded
// trace; the job's simulation cannot tell. Things that happen at one instant to several nodes (a
// rack) are one event: they are lost together, which decides whether copies survive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/failures/failure_law.h"

namespace evermoe {

struct AvailabilityEvent {
  enum class Kind : uint8_t {
    kUp,         // the nodes are there (again)
    kDown,       // they are gone, with all in their memory
    kCrash,      // their processes died; the nodes are there
    kAnnounced,  // they will go and can be left first; as far as the source is concerned they are
                 // down now
  };
  double seconds = 0;
  Kind kind = Kind::kUp;
  std::span<const int> nodes;  // ascending; valid until the next call of the source
};

class AvailabilitySource {
 public:
  virtual ~AvailabilitySource() = default;
  // Times never fall. Nothing: no more events will ever come.
  virtual std::optional<AvailabilityEvent> next() = 0;
  // Nodes are 0 .. nodes() - 1.
  virtual int nodes() const = 0;
  virtual bool up_at_start(int node) const = 0;
};

// The racks of neighbouring nodes: rack r has nodes [r nodes / racks, (r + 1) nodes / racks).
int rack_of(int node, int nodes, int racks);

// Draws from the law; all nodes are up at the start. Stream n of the seed is node n's life, stream
// nodes + r that of rack r, the one after the racks' that of what all share: then every node that
// is up crashes. O(log nodes) per event, O(nodes) memory.
// REQUIRES: nodes >= 1, racks >= 0, check(law, racks) is ok.
std::unique_ptr<AvailabilitySource> draw_availability(const FailureLaw& law, int nodes, int racks,
                                                      uint64_t seed);

}  // namespace evermoe
