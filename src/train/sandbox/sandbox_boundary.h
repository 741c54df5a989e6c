// The way out of a stage for a process that computes alone (sandbox.h): what is sent goes nowhere,
// and what comes is made up.
#pragma once

#include "recovery/stage_trainer.h"
#include "tensor/torch.h"

namespace evermoe {

class SandboxBoundary final : public Boundary {
 public:
  // `type`: of what crosses the boundary.
  explicit SandboxBoundary(at::ScalarType type) : type_(type) {}

  absl::Status send(Rank, BoundaryDirection, MicroBatch, BoundaryMessage) override {
    return absl::OkStatus();
  }
  // Activations between -1 and 1, and gradients a thousandth of that.
  absl::Status receive(Rank, BoundaryDirection direction, MicroBatch,
                       std::span<std::byte> into) override;

 private:
  const at::ScalarType type_;
};

}  // namespace evermoe
