// Which build this program is of.
#pragma once

namespace evermoe {

// "0.1.0-3f9c2a1b77d0": the version, and a hash of every source file that programs are made of.
// Equal in `evermoe` and `evermoe-worker` exactly if they were made from the same sources.
const char* build_fingerprint();

}  // namespace evermoe
