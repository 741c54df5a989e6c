#include "train/sandbox/sandbox_boundary.h"

namespace evermoe {

absl::Status SandboxBoundary::receive(Rank, BoundaryDirection direction, MicroBatch,
                                      std::span<std::byte> into) {
  constexpr int kPeriod = 97;  // no divisor of any width
  const auto count = static_cast<int64_t>(into.size() / c10::elementSize(type_));
  const double scale = direction == BoundaryDirection::kActivation ? 1 : 1e-3;
  at::Tensor numbers = at::arange(count, at::kFloat).remainder_(kPeriod);
  numbers.sub_(kPeriod / 2).mul_(scale * 2 / kPeriod);
  at::from_blob(into.data(), {count}, type_).copy_(numbers);
  return absl::OkStatus();
}

}  // namespace evermoe
