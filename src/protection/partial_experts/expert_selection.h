// Which experts a partial-expert checkpoint holds (partial_saves.h).
#pragma once

#include <cstdint>

namespace evermoe {

enum class ExpertSelection : uint8_t {
  kSequential,  // those whose images are oldest
  kLoadAware,   // those that have learned from most tokens since
};

}  // namespace evermoe
