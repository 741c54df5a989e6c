#include "tensor/kernels/fused.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>

#include "base/check.h"
#include "base/mutex.h"
#include "tensor/kernels/fused_source.h"
#include "tensor/kernels/kernel_module.h"

namespace evermoe::fused {
namespace {

constexpr int64_t kPack = 8;  // elements that a thread takes at a time

const KernelModule& kernels_of(at::Device device) {
  static Mutex mutex;
  static auto& modules = *new std::map<int, std::unique_ptr<KernelModule>>();
  const MutexLock lock(mutex);
  std::unique_ptr<KernelModule>& module = modules[device.index()];
  if (module == nullptr) module = std::make_unique<KernelModule>(kFusedKernels, device);
  return *module;
}

Launcher& in_host_memory() {
  static auto& launcher = *new Launcher();
  return launcher;
}

template <typename... Arguments>
void launch(const at::Tensor& rows, const char* kernel, KernelModule::Grid grid,
            Arguments... arguments) {
  void* pointers[] = {&arguments...};
  if (rows.is_cpu()) return in_host_memory()(kernel, grid.blocks, grid.threads, pointers);
  kernels_of(rows.device()).launch(kernel, grid, pointers);
}

using Bf16 = unsigned short;
using Index = long long;

template <typename T>
T* memory(const at::Tensor& tensor) {
  CHECK(tensor.is_contiguous());
  return static_cast<T*>(tensor.mutable_data_ptr());
}

// Enough threads for a row, a power of two.
int64_t threads_of_row(int64_t width) {
  const auto packs = static_cast<uint64_t>((width + kPack - 1) / kPack);
  return std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(packs)), 32, 256);
}

// A thread for each pack.
KernelModule::Grid packs_of(int64_t elements) {
  constexpr int64_t kThreads = 256;
  return {(elements / kPack + kThreads - 1) / kThreads, kThreads};
}

int width_of(const at::Tensor& rows) { return static_cast<int>(rows.size(-1)); }

at::Tensor rows_like(const at::Tensor& rows, int64_t count, int64_t width) {
  return at::empty({count, width}, rows.options());
}

}  // namespace

void run_in_host_memory_by(Launcher launcher) { in_host_memory() = std::move(launcher); }

bool has_kernels(const at::Tensor& rows) {
  return rows.is_cuda() && rows.scalar_type() == at::kBFloat16 && rows.dim() == 2 &&
         rows.size(1) % (2 * kPack) == 0 && rows.is_contiguous();
}

at::Tensor mix(const at::Tensor& rows, const at::Tensor& row_of, const at::Tensor& weights) {
  at::Tensor tokens = rows_like(rows, row_of.size(0), rows.size(1));
  launch(rows, "mix", {row_of.size(0), threads_of_row(rows.size(1))}, memory<const Bf16>(rows),
         memory<const Index>(row_of),
         weights.defined() ? memory<const float>(weights) : static_cast<const float*>(nullptr),
         memory<Bf16>(tokens), width_of(rows), width_of(row_of));
  return tokens;
}

std::pair<at::Tensor, at::Tensor> mix_backward(const at::Tensor& gradient, const at::Tensor& rows,
                                               const at::Tensor& choice_of_row,
                                               const at::Tensor& weights) {
  at::Tensor of_rows = at::empty_like(rows), of_weights = at::empty_like(weights);
  launch(rows, "mix_backward", {rows.size(0), threads_of_row(rows.size(1))},
         memory<const Bf16>(gradient), memory<const Bf16>(rows), memory<const Index>(choice_of_row),
         memory<const float>(weights), memory<Bf16>(of_rows), memory<float>(of_weights),
         width_of(rows), width_of(weights));
  return {of_rows, of_weights};
}

at::Tensor swiglu(const at::Tensor& up) {
  at::Tensor result = rows_like(up, up.size(0), up.size(1) / 2);
  launch(up, "swiglu", packs_of(result.numel()), memory<const Bf16>(up), memory<Bf16>(result),
         width_of(result), static_cast<Index>(result.numel()));
  return result;
}

at::Tensor swiglu_backward(const at::Tensor& gradient, const at::Tensor& up) {
  at::Tensor of_up = at::empty_like(up);
  launch(up, "swiglu_backward", packs_of(gradient.numel()), memory<const Bf16>(gradient),
         memory<const Bf16>(up), memory<Bf16>(of_up), width_of(gradient),
         static_cast<Index>(gradient.numel()));
  return of_up;
}

std::pair<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                           double epsilon) {
  at::Tensor result = at::empty_like(x);
  at::Tensor scale = at::empty({x.size(0)}, x.options().dtype(at::kFloat));
  launch(x, "rms_norm", {x.size(0), threads_of_row(x.size(1))}, memory<const Bf16>(x),
         memory<const Bf16>(weight), memory<Bf16>(result), memory<float>(scale), width_of(x),
         static_cast<float>(epsilon));
  return {result, scale};
}

std::pair<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                                                    const at::Tensor& scale,
                                                    const at::Tensor& weight, bool of_weight) {
  const int64_t threads = threads_of_row(x.size(1));
  at::Tensor of_x = at::empty_like(x);
  launch(x, "rms_norm_backward", {x.size(0), threads}, memory<const Bf16>(gradient),
         memory<const Bf16>(x), memory<const float>(scale), memory<const Bf16>(weight),
         memory<Bf16>(of_x), width_of(x));
  if (!of_weight) return {of_x, at::Tensor()};
  // A number of parts that does not depend on the GPU.
  const int64_t parts = std::min<int64_t>(x.size(0), 512);
  at::Tensor partial = at::empty({parts, x.size(1)}, scale.options());
  launch(x, "rms_norm_weight_backward", {parts, threads}, memory<const Bf16>(gradient),
         memory<const Bf16>(x), memory<const float>(scale), memory<float>(partial),
         static_cast<Index>(x.size(0)), width_of(x));
  return {of_x, partial.sum(0)};
}

bool rotates(const at::Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kBFloat16 && x.dim() == 4 &&
         x.size(3) % (2 * kPack) == 0 && x.is_contiguous();
}

void rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine,
            Rotation direction, const at::Tensor& into) {
  const at::Tensor from = x.stride(3) == 1 ? x : x.contiguous();
  CHECK(into.stride(3) == 1);
  struct HeadStrides {
    Index batch, token, head;
  };
  const auto strides_of = [](const at::Tensor& t) {
    return HeadStrides{t.stride(0), t.stride(1), t.stride(2)};
  };
  const auto start = [](const at::Tensor& t) { return static_cast<Bf16*>(t.mutable_data_ptr()); };
  launch(x, "rotate", packs_of(x.numel() / 2), static_cast<const Bf16*>(start(from)),
         strides_of(from), start(into), strides_of(into), memory<const float>(cosine),
         memory<const float>(sine), static_cast<int>(x.size(1)), static_cast<int>(x.size(2)),
         static_cast<int>(x.size(3) / 2), direction == Rotation::kForth ? 1.0f : -1.0f,
         static_cast<Index>(x.numel() / 2));
}

}  // namespace evermoe::fused
