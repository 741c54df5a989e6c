#include "tensor/wide_product.h"

#include <string_view>

#include "tensor/bf16_product.h"

namespace evermoe {
namespace {

const uint16_t* bits_of(const at::Tensor& x) {
  return static_cast<const uint16_t*>(x.const_data_ptr());
}

void add_bf16(at::Tensor& accumulator, const at::Tensor& gradient, const at::Tensor& x) {
  // The library was seen to fail on a CPU with AVX-512 where rows lay further apart than they are
  // long.
  const at::Tensor a = gradient.contiguous(), b = x.contiguous();
  add_bf16_product({.out = a.size(1), .in = b.size(1), .rows = a.size(0)}, bits_of(a), bits_of(b),
                   accumulator.mutable_data_ptr<float>());
}

// From AVX-512 on, without which neither library has kernels for BF16. PyTorch's answer heeds
// ATEN_CPU_CAPABILITY.
bool cpu_has_bf16_kernels() {
  static const bool has = [] {
    const std::string_view capability = at::get_cpu_capability();
    return capability != "DEFAULT" && capability != "AVX2";
  }();
  return has;
}

}  // namespace

at::ScalarType kernel_type(const at::Tensor& factor) {
  const at::ScalarType type = factor.scalar_type();
  if (factor.is_cuda()) return type;
  if (type == at::kBFloat16 && !cpu_has_bf16_kernels()) return at::kFloat;
  // Hardly any CPU has kernels for FP16: those of FP32 are ten times as fast.
  return type == at::kHalf ? at::kFloat : type;
}

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::ScalarType wide = kernel_type(x);
  return at::linear(x.to(wide), weight.to(wide), bias.defined() ? bias.to(wide) : bias)
      .to(x.scalar_type());
}

at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b) {
  const at::ScalarType wide = kernel_type(a);
  return at::mm(a.to(wide), b.to(wide)).to(a.scalar_type());
}

void matrix_product_into(at::Tensor into, const at::Tensor& a, const at::Tensor& b) {
  const at::ScalarType wide = kernel_type(a);
  if (wide == a.scalar_type()) {
    at::mm_out(into, a, b);
  } else {
    into.copy_(at::mm(a.to(wide), b.to(wide)));
  }
}

void add_weight_gradient(at::Tensor accumulator, const at::Tensor& gradient, const at::Tensor& x) {
  if (x.size(0) == 0) return;
  CHECK(accumulator.is_contiguous());
  if (x.is_cpu() && kernel_type(x) == at::kBFloat16) return add_bf16(accumulator, gradient, x);
  const at::ScalarType wide = accumulator.scalar_type();
  // cuBLAS multiplies narrow factors and adds in FP32.
  if (x.is_cuda() && wide != x.scalar_type()) {
    at::addmm_out(accumulator, accumulator, gradient.t(), x, wide);
    return;
  }
  accumulator.addmm_(gradient.to(wide).t(), x.to(wide));
}

}  // namespace evermoe
