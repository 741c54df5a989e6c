// Casts between element types, with the same bits as torch's Tensor::to().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/format/element_type.h"

namespace evermoe {

// Round to nearest, ties to even; overflow becomes infinity; NaN stays NaN (one bit pattern per
// function: torch's own differ between its vector and its scalar code).
uint16_t bf16_from_float(float value);
uint16_t fp16_from_float(float value);
float float_from_bf16(uint16_t bits);
float float_from_fp16(uint16_t bits);

// Casts element by element, over float as torch does; to blocks of kFp8 to the nearest. REQUIRES:
// both hold the same number of elements and are aligned for their types.
void cast_elements(ElementType from_type, std::span<const std::byte> from, ElementType to_type,
                   std::span<std::byte> to);

}  // namespace evermoe
