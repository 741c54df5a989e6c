// What becomes of a node that will be taken away soon: others play its roles, in one planned view,
// or the job is drained before it goes. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/controller_interface.h"
#include "control/controller/role_placement.h"
#include "control/controller/role_table.h"
#include "control/controller/status/copy_book.h"

namespace evermoe {

struct LeavingDecision {
  enum class Kind {
    kWait,
    kDismiss,   // it plays no role
    kOpenView,  // whose reports tell what the decision needs
    kDrainJob,
    kMoveRoles,  // the loss of all its workers is survived, and others have room for them
  };
  Kind kind = Kind::kWait;  // also while others may come, or be heard again, that have room
  std::string why;          // of the last three
};

// What the decision depends on; the tables outlive it.
struct LeavingState {
  const RoleTable& roles;
  const NodeTable& nodes;
  const CopyBook& copies;
  bool is_view_open = false;
  bool is_loading = false;  // somebody still gathers its state
  // Until then nodes of the job may come that this controller, which took over, has not met.
  absl::Duration others_until;
};

// Who leaves, those that play roles first: where no other can take their place, all stay to the
// end.
std::vector<Node> nodes_that_leave(const RoleTable& roles, const NodeTable& nodes);

LeavingDecision decide_leaving(absl::Duration now, Node node, const LeavingState& state,
                               const ControllerOptions& options);

}  // namespace evermoe
