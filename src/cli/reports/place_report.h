// Where experts go, what that survives, and why: `evermoe place`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experts/migration/expert_transfer.h"
#include "experts/placement/replica_allocation.h"
#include "experts/placement/replica_placement.h"
#include "experts/placement/survival.h"

namespace evermoe {

// Where the experts are before a move, by node of the new placement.
struct HeldExperts {
  ExpertsOfNodes experts_of;  // empty for a node that has just joined
  std::vector<int> numbers;   // the node's number before, -1 for one that has just joined
};

struct PlaceRequest {
  std::vector<int64_t> loads;  // tokens, by expert
  int nodes = 0;
  int slots = 0;   // experts that a node holds
  int faults = 2;  // replicas of every expert at least, as far as they fit
  int racks = 0;   // that nodes are dealt to in order; 0: not known
  PlacementMethod method = PlacementMethod::kMroQ;
  // Then the nodes of the plan are given to those that hold most of them already, and the report
  // has the transfers. As many nodes as above.
  std::optional<HeldExperts> held;
};

struct PlaceReport {
  struct Method {
    PlacementMethod method;
    int distinct_least = 0;
    std::optional<SurvivalCurve> survival;  // none: too tangled to count
  };

  PlaceRequest request;
  ReplicaAllocation allocation;
  ReplicaPlacement placement;  // its experts_of is by physical node
  double slowdown = 1;         // the busiest node's load over the mean
  std::optional<SurvivalCurve> survival;
  std::optional<SurvivalCurve> rack_survival;
  std::vector<int> too_close;             // experts in one rack only, although racks are known
  std::vector<Method> methods;            // all of them, for comparison
  std::optional<TransferPlan> transfers;  // from request.held to the placement
};

inline constexpr int64_t kPlacedSlotsMax = int64_t{1} << 24;

// InvalidInput with one line for what cannot be placed.
absl::Status check(const PlaceRequest& request);
absl::StatusOr<PlaceReport> report_placement(const PlaceRequest& request);

// With `explain`: why each expert has its replicas, which experts share nodes and why, and what
// other methods survive.
std::string to_text(const PlaceReport& report, bool explain);
std::string to_json(const PlaceReport& report);

}  // namespace evermoe
