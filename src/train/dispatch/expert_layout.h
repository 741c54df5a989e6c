// Where each hosted expert's rows lie in the expert layout (experts/dispatch/dispatch_plan.h).
#pragma once

#include <utility>
#include <vector>

#include "experts/dispatch/dispatch_plan.h"
#include "tensor/torch.h"

namespace evermoe {

// Threads: one at a time.
class ExpertLayout {
 public:
  // Planned on the host.
  explicit ExpertLayout(std::vector<ExpertRows> rows) : rows_(std::move(rows)) {}
  // Planned on a device, of all experts, without padding. `ends` [experts] int32: where each
  // expert's rows end.
  explicit ExpertLayout(at::Tensor ends) : ends_(std::move(ends)) {}

  // One entry for each hosted expert, ascending. Waits for a device that has planned.
  const std::vector<ExpertRows>& rows();
  // [experts] int32 on that device: where each expert's rows end, with their padding.
  at::Tensor ends(at::Device device);

 private:
  at::Tensor ends_;
  std::vector<ExpertRows> rows_;
};

}  // namespace evermoe
