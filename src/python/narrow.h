// Python's integers, as 64 bit, to the planner's int. Throws StatusError(InvalidInput) "name: ..."
// where one does not fit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace evermoe {

int narrow(int64_t value, const char* name);
std::vector<int> narrow_all(std::span<const int64_t> values, const char* name);

}  // namespace evermoe
