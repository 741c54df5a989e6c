#include "tensor/wide_product.h"

#include "tensor/bf16_product.h"

namespace evermoe {
namespace {

// Rows that lie one after the other, whatever their distance.
at::Tensor by_rows(const at::Tensor& x) {
  return x.stride(1) == 1 && x.stride(0) >= x.size(1) ? x : x.contiguous();
}

const uint16_t* bits_of(const at::Tensor& x) {
  return static_cast<const uint16_t*>(x.const_data_ptr());
}

bool add_bf16(at::Tensor& accumulator, const at::Tensor& gradient, const at::Tensor& x) {
  const at::Tensor a = by_rows(gradient), b = by_rows(x);
  return add_bf16_product({.out = a.size(1), .in = b.size(1), .rows = a.size(0)}, bits_of(a),
                          a.stride(0), bits_of(b), b.stride(0),
                          accumulator.mutable_data_ptr<float>());
}

}  // namespace

void add_weight_gradient(at::Tensor accumulator, const at::Tensor& gradient, const at::Tensor& x) {
  if (x.size(0) == 0) return;
  CHECK(accumulator.is_contiguous());
  const at::ScalarType wide = accumulator.scalar_type();
  if (x.scalar_type() == at::kBFloat16 && x.is_cpu() && add_bf16(accumulator, gradient, x)) return;
  // FP16 goes this way because no CPU has fast kernels for it: FP32's are ten times as fast.
  accumulator.addmm_(gradient.to(wide).t(), x.to(wide));
}

}  // namespace evermoe
