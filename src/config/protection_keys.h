// The table [protection]: how lost workers' state is kept by their peers.
#pragma once

#include <vector>

#include "config/config_key.h"

namespace evermoe {

// In the order of the documentation.
std::vector<ConfigKey> protection_keys();

}  // namespace evermoe
