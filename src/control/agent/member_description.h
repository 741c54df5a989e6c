// What a controller hears of a process that plays a role, whenever that registers with it.
#pragma once

#include "control/controller/controller_interface.h"

namespace evermoe {

class Member;

// All that the member knows of itself. Where it is heard at (address), what its arithmetic depends
// on, and as whom it registers is not the member's.
MemberJoined describe(const Member& member);

}  // namespace evermoe
