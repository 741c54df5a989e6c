// Matrix products that ATen does not offer on CPUs: BF16 factors, FP32 sums and result. By oneDNN.
//
// Knows nothing of torch, whose wheel ships headers of another version of oneDNN.
#pragma once

#include <cstdint>
#include <string>

namespace evermoe {

struct ProductSizes {
  int64_t out = 0;
  int64_t in = 0;
  int64_t rows = 0;
};

// sum [out, in] += a^T b of a [rows, out] and b [rows, in], BF16 by their bits. For CPUs
// with AVX-512: others are very slow. Threads: any, each with its own sum; computes with OpenMP's
// number of threads.
void add_bf16_product(ProductSizes sizes, const uint16_t* a, const uint16_t* b, float* sum);

// "2.6.3": part of what workers must have in common.
std::string product_library_version();

}  // namespace evermoe
