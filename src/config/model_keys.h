// The table [model]: the shape that is trained.
#pragma once

#include <vector>

#include "config/config_key.h"

namespace evermoe {

// In the order of the documentation.
std::vector<ConfigKey> model_keys();

}  // namespace evermoe
