// Initial weights as a pure function of (seed, operator, parameter, element): any rank can make any
// range of any operator at any time, without files and without a running generator.
#pragma once

#include <cstdint>
#include <span>

#include "model/operator.h"

namespace evermoe {

// Writes the initial master weights of `range` of the operator's flat layout. Gaps become zero.
//
// Normal deviates are sums of twelve counter-based uniforms less six (Irwin-Hall), made with
// integer arithmetic and one rounding: the same bits on every machine, which no libm promises.
void fill_initial_weights(const OperatorSpec& spec, uint64_t seed, FlatRange range,
                          std::span<float> into);

}  // namespace evermoe
