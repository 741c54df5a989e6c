// Large numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace evermoe {

std::string with_commas(int64_t value);  // "1,234,567"; REQUIRES: value >= 0
std::string shown_bytes(int64_t bytes);  // "1.2 MiB"

}  // namespace evermoe
