// How fast is state copied from a GPU to host memory? On a machine without one: from the CPU's.
//
//   copy_to_host/pageable/BYTES      as protection does it today (tensor/host_bytes.h)
//   copy_to_host/page_locked/BYTES   the same into memory that the GPU may write to. Limit: PCIe,
//                                    about 55 GB/s of generation 5
//   copy_from_host/BYTES             as recovery does it
//
//   gpu_copy_bench --benchmark_format=json
#include <benchmark/benchmark.h>

#include <vector>

#include "tensor/compute_device.h"
#include "tensor/gpus.h"
#include "tensor/host_bytes.h"

namespace evermoe {
namespace {

at::Device device() {
  static const at::Device one = [] {
    const at::Device found =
        torch_has_cuda() && !gpus().empty() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
    use_device(found);
    return found;
  }();
  return one;
}

at::Tensor state_of(int64_t bytes) {
  return at::ones({bytes / 4}, at::TensorOptions().dtype(at::kFloat).device(device()));
}

void copy_out(benchmark::State& state, bool page_locked) {
  const int64_t bytes = state.range(0);
  const at::Tensor from = state_of(bytes);
  const at::Tensor into = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(
                                                 page_locked && device().is_cuda()));
  const std::span<std::byte> memory = host_bytes(into.fill_(0));
  for (auto _ : state) copy_to_host(from, 0, memory);
  state.SetBytesProcessed(state.iterations() * bytes);
}

void copy_in(benchmark::State& state) {
  const int64_t bytes = state.range(0);
  const at::Tensor into = state_of(bytes);
  const std::vector<std::byte> from(static_cast<size_t>(bytes));
  for (auto _ : state) copy_from_host(from, into, 0);
  state.SetBytesProcessed(state.iterations() * bytes);
}

constexpr int64_t kLeast = 512 << 10, kMost = 128 << 20;
BENCHMARK_CAPTURE(copy_out, pageable, false)
    ->Name("copy_to_host/pageable")
    ->RangeMultiplier(16)
    ->Range(kLeast, kMost)
    ->UseRealTime();
BENCHMARK_CAPTURE(copy_out, page_locked, true)
    ->Name("copy_to_host/page_locked")
    ->RangeMultiplier(16)
    ->Range(kLeast, kMost)
    ->UseRealTime();
BENCHMARK(copy_in)
    ->Name("copy_from_host")
    ->RangeMultiplier(16)
    ->Range(kLeast, kMost)
    ->UseRealTime();

}  // namespace
}  // namespace evermoe

BENCHMARK_MAIN();
