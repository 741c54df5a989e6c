// Comparing identities: texts of "key=value" lines that say what determines bits.
#pragma once

#include <string>

namespace evermoe {

// What of `here` is otherwise in `there`, for people: "model.top_k is 2 there and 1 here, ...";
// empty if nothing is. Keys that only `there` has do not count: who wrote it knew more than the
// reader compares (a trainer also knows the tokens, which `evermoe run` does not open).
std::string identity_difference(const std::string& there, const std::string& here);

}  // namespace evermoe
