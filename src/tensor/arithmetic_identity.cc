#include "tensor/arithmetic_identity.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "tensor/bf16_product.h"
#include "tensor/gpus.h"
#include "tensor/host_bytes.h"
#include "tensor/kernels/kernel_module.h"
#include "tensor/torch.h"
#include "tensor/wide_product.h"

namespace evermoe {
namespace {

constexpr int64_t kRows = 96, kIn = 320, kOut = 160;

// Numbers in [-1, 1) with mantissas that do not add up exactly; the same ones everywhere.
at::Tensor trial_numbers(int64_t rows, int64_t columns, uint32_t seed) {
  std::vector<float> numbers(static_cast<size_t>(rows * columns));
  uint32_t state = seed;
  for (float& number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f;
  }
  return at::tensor(numbers).view({rows, columns});
}

void note(FingerprintStream& bits, const at::Tensor& result) {
  bits.update(HostReadable(result.contiguous()).bytes());
}

// A product, its weight's gradient, and what stands between products.
void note_layer(FingerprintStream& bits, const at::TensorOptions& options) {
  const at::Tensor x = trial_numbers(kRows, kIn, 1).to(options);
  const at::Tensor weight = trial_numbers(kOut, kIn, 2).to(options);
  const at::Tensor y = linear_product(x, weight);
  note(bits, y);
  at::Tensor gradient = at::zeros({kOut, kIn}, options.dtype(at::kFloat));
  add_weight_gradient(gradient, y, x);
  note(bits, gradient);
  note(bits, at::softmax(y, 1));
  note(bits, at::silu(y) * at::rsqrt(y.square().mean(1, /*keepdim=*/true) + 1e-5));
  // PyTorch's kernel refuses FP16 on some CPUs whose capability was lowered.
  const at::Tensor heads = y.to(kernel_type(y)).view({1, kRows, 4, kOut / 4}).transpose(1, 2);
  note(bits, at::scaled_dot_product_attention(heads, heads, heads, {}, 0.0, /*is_causal=*/true));
}

// The bits that the kernels of training come to: libraries choose them by instruction sets and
// variables of the environment that have no version to be asked for.
std::string trial_bits(at::Device device) {
  const at::NoGradGuard no_grad;
  FingerprintStream bits;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    note_layer(bits, at::TensorOptions().device(device).dtype(type));
  return to_hex(bits.finish());
}

std::string lines_of(at::Device device) {
  if (!device.is_cuda()) return "\ndevice=cpu";
  const Gpu& gpu = gpus().at(static_cast<size_t>(device.index()));
  const at::CUDAHooksInterface& cuda = at::detail::getCUDAHooks();
  return absl::StrCat("\ndevice=cuda\ngpu=", gpu.name, "\nmultiprocessors=", gpu.multiprocessors,
                      "\ngpu_driver=", gpu_driver_version(), "\ncuda=", cuda.versionCUDART(),
                      "\ncudnn=", cuda.versionRuntimeCuDNN(),
                      "\nkernel_compiler=", kernel_compiler_version());
}

}  // namespace

std::string arithmetic_identity(at::Device device) {
  static const std::string bits = trial_bits(device);
  return absl::StrCat(
      "torch=", EVERMOE_TORCH_VERSION, "\ncpu_capability=", at::get_cpu_capability(),
      "\nonednn=", product_library_version(), "\ncompute_threads=", at::get_num_threads(),
      lines_of(device), "\nbits=", bits, "\n");
}

}  // namespace evermoe
