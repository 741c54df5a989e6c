#include "tensor/fp8_factor.h"

#include <algorithm>
#include <cmath>

namespace evermoe {
namespace {

double largest_of(at::ScalarType type) { return type == at::kFloat8_e4m3fn ? 448 : 57344; }

// The exponent of the greatest power of two whose product with `largest` is at most `limit`.
int scale_exponent(double largest, double limit) {
  int exponent = 0;
  const double fraction = std::frexp(limit / largest, &exponent);  // in [0.5, 1)
  return fraction > 0 ? exponent - 1 : 0;
}

}  // namespace

at::Tensor rounded_to_fp8(const at::Tensor& x, at::ScalarType type) {
  CHECK(type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2) << "not a type of FP8";
  if (x.numel() == 0) return x;
  const double largest = x.abs().max().item<double>();
  if (largest == 0 || !std::isfinite(largest)) return x;
  // Of FP32, in which the scale and its reciprocal are exact.
  const int exponent = std::clamp(scale_exponent(largest, largest_of(type)), -120, 120);
  const at::Tensor scaled = x.to(at::kFloat) * std::ldexp(1.0, exponent);
  return scaled.to(type).to(at::kFloat).mul_(std::ldexp(1.0, -exponent)).to(x.scalar_type());
}

}  // namespace evermoe
