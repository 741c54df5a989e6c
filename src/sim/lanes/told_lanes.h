// To compare what a run was told of lanes with what its members have trained on. Pure.
#pragma once

#include <string>
#include <vector>

#include "control/controller/controller_interface.h"
#include "parallel/membership.h"
#include "parallel/topology.h"

namespace evermoe {

// "0:3,3|8:2,3": on how many lanes of each stage a job of `steps` steps trained, from which state
// on. Which of the lanes they were makes no difference.
std::string lanes_text(const Topology& topology, const MembershipHistory& trained, Step steps);
std::string lanes_text(const Topology& topology, const std::vector<LanesChanged>& told, Step steps);

}  // namespace evermoe
