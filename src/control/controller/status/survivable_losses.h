// Which losses of nodes would be survived now, without going back to a checkpoint on disk. Pure.
//
// The state of a role is in the memory of the nodes that hold it: its own, and those of the roles
// that keep its copies. It is lost with all of these. So the sets of nodes whose loss is not
// survived are exactly those that contain one of these sets, or all nodes that play roles: nobody
// would be left to say how far the job was.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "control/controller/controller_interface.h"

namespace evermoe {

struct SurvivableLosses {
  bool is_known = false;      // false: this controller has not heard yet who holds what
  bool is_protected = false;  // false: any loss sends all back to the newest checkpoint on disk
  int any = 0;                // any so many nodes may be lost at once
  // The smallest sets that may not, each of any + 1 nodes, in order; the first kFatalSetsMax.
  std::vector<std::vector<Node>> fatal;
  int64_t fatal_sets = 0;  // how many there are
};
inline constexpr size_t kFatalSetsMax = 64;

// `keepers`: for every role, the nodes that hold its state; none: it is gone, and the job goes back
// to disk. `in_use`: nodes that play roles.
SurvivableLosses survivable_losses(std::vector<std::vector<Node>> keepers,
                                   std::vector<Node> in_use);

// "any one node; any two but 1+2, 3+4"
std::string to_text(const SurvivableLosses& losses);

}  // namespace evermoe
