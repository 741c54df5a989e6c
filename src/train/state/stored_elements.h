// Tensors as state is stored: one element for one parameter, or bytes that are blocks of FP8
// (checkpoint/format/narrowing.h). Ranges are in parameters, cut at multiples of kFlatAlignment.
#pragma once

#include "checkpoint/format/narrowing.h"
#include "model/operator.h"
#include "tensor/torch.h"

namespace evermoe {

// at::kByte for kFp8.
at::ScalarType storage_type(ElementType type);
// The reverse.
ElementType element_type(at::ScalarType storage);

// Narrower than FP32.
bool is_narrow(at::ScalarType storage);
// Whether that is how a second moment's root is stored (checkpoint/format/element_type.h).
bool is_root(StatePart part, at::ScalarType storage);

// Elements of a tensor that stores so many parameters.
int64_t storage_size(at::ScalarType storage, int64_t parameters);
// A 1-D tensor of zeros.
at::Tensor new_storage(ElementType type, int64_t parameters, at::Device device);
// View of a range of the parameters; of all of them, the tensor itself.
at::Tensor stored_range(const at::Tensor& storage, FlatRange range);

// The values of all its parameters in FP32 (FP64 if that is what it stores); the tensor itself
// where that is its type.
at::Tensor widened(const at::Tensor& storage);
// `into` := `from`, both storage of as many parameters; narrower types to the nearest.
void copy_stored(const at::Tensor& from, at::Tensor into);
// `into` := these FP32 values.
void narrow_into(const at::Tensor& values, at::Tensor into, const Narrowing& narrowing);

}  // namespace evermoe
