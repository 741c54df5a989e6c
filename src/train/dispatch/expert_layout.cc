#include "train/dispatch/expert_layout.h"

#include <cstdint>

#include "tensor/host_bytes.h"

namespace evermoe {

const std::vector<ExpertRows>& ExpertLayout::rows() {
  if (!ends_.defined() || !rows_.empty()) return rows_;
  int64_t begin = 0;
  const at::Tensor ends = ends_.cpu();
  for (const int32_t end : host_values<int32_t>(ends)) {
    rows_.push_back({.expert = static_cast<int>(rows_.size()),
                     .begin = begin,
                     .rows = end - begin,
                     .padded = end - begin});
    begin = end;
  }
  return rows_;
}

at::Tensor ExpertLayout::ends(at::Device device) {
  if (ends_.defined()) return ends_;
  std::vector<int32_t> ends;
  for (const ExpertRows& one : rows_) ends.push_back(static_cast<int32_t>(one.begin + one.padded));
  return on_device<int32_t>(ends, device);
}

}  // namespace evermoe
