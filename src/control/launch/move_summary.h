// A planned move in the summary of a run (docs/run-summary.md, `moves`).
#pragma once

#include <string>

#include "absl/time/time.h"
#include "control/controller/moves/move_record.h"

namespace evermoe {

// With all its moments earlier by so much.
MoveRecord since(absl::Duration began, MoveRecord record);
// "1.0 from node 0 to node 2 at step 12: the job stood for 0.21 s, 1.2 MB".
std::string to_text(const MoveRecord& record);

}  // namespace evermoe
