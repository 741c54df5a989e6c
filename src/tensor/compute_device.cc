#include "tensor/compute_device.h"

#include <c10/core/AutogradState.h>

#include <cstdlib>

namespace evermoe {

void use_device(at::Device device) {
  if (!device.is_cuda()) return;
  // Workers have it from their agent, before they have threads (control/launch/job_run.cc).
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // What is not written is not read; filling it would be a write of its own.
  context.setDeterministicFillUninitializedMemory(false);
  context.setSDPUseCuDNN(false);
  context.setAllowTF32CuBLAS(false);
  context.setAllowBF16ReductionCuBLAS(/*allow_reduced_precision=*/false);
  context.setAllowFP16ReductionCuBLAS(/*allow_reduced_precision=*/false);
}

BackwardOnThisThread::BackwardOnThisThread()
    : before_(c10::AutogradState::get_tls_state().get_multithreading_enabled()) {
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}

BackwardOnThisThread::~BackwardOnThisThread() {
  c10::AutogradState::get_tls_state().set_multithreading_enabled(before_);
}

}  // namespace evermoe
