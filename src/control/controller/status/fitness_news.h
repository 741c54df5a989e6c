// What people should hear of a machine that was checked (control/health/node_health.h). One that is
// not fit is given no role, whatever is needed, until it passes a later check; what it plays it
// goes on playing. Pure.
#pragma once

#include <string>
#include <vector>

#include "control/controller/controller_interface.h"

namespace evermoe {

// `before`, `now`: what the former check and this one complain of. Empty: nothing is new. What is
// measured changes all the time: only that it is fit, or is not, is told, and what was found in the
// end of one that had not measured itself in time.
std::string fitness_news(Node node, const std::vector<std::string>& before,
                         const std::vector<std::string>& now);

}  // namespace evermoe
