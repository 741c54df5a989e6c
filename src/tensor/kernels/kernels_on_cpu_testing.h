// Runs the text of our kernels on the CPU: a block's threads are threads, and its blocks run one
// after the other. So their indices, and how they are called, are tested without a GPU.
#pragma once

#include <barrier>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <vector>

namespace evermoe::on_cpu {

struct Place {
  unsigned x = 0;
};
inline thread_local Place threadIdx, blockIdx;
inline Place blockDim, gridDim;
inline std::barrier<>* block_barrier = nullptr;

// Calls `body` on every thread of every block. One at a time in a process.
inline void run_blocks(int64_t blocks, int64_t threads, const std::function<void()>& body) {
  std::barrier<> barrier(threads);
  block_barrier = &barrier;
  blockDim.x = static_cast<unsigned>(threads);
  gridDim.x = static_cast<unsigned>(blocks);
  std::vector<std::jthread> all;
  for (int64_t i = 0; i < threads; ++i) {
    all.emplace_back([&, i] {
      threadIdx.x = static_cast<unsigned>(i);
      for (int64_t block = 0; block < blocks; ++block) {
        blockIdx.x = static_cast<unsigned>(block);
        body();
        barrier.arrive_and_wait();
      }
    });
  }
}

#define __device__
#define __shared__ static
#define __syncthreads() block_barrier->arrive_and_wait()
#define KERNEL inline
#include "tensor/kernels/fused_kernels.cu"
#undef KERNEL
#undef __syncthreads
#undef __shared__
#undef __device__

template <typename... Arguments, size_t... I>
void call(void (*kernel)(Arguments...), std::span<void*> arguments, std::index_sequence<I...>) {
  kernel(*static_cast<Arguments*>(arguments[I])...);
}

// A kernel that finds its arguments as a GPU's driver is given them.
template <typename... Arguments>
std::function<void(std::span<void*>)> with_arguments(void (*kernel)(Arguments...)) {
  return [kernel](std::span<void*> arguments) {
    call(kernel, arguments, std::index_sequence_for<Arguments...>());
  };
}

}  // namespace evermoe::on_cpu
