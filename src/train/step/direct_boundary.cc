#include "train/step/direct_boundary.h"

#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace evermoe {

// Unique among all messages that can be on their way between two ranks at once.
uint32_t DirectBoundary::name(BoundaryDirection direction, MicroBatch micro_batch) const {
  CHECK(micro_batch.value >= 0 && micro_batch.value <= 0xffff) << "micro-batch " << micro_batch;
  return static_cast<uint32_t>(commit_.value & 0xfff) << 17 |
         static_cast<uint32_t>(direction) << 16 | static_cast<uint32_t>(micro_batch.value);
}

absl::Status DirectBoundary::send(Rank to, BoundaryDirection direction, MicroBatch micro_batch,
                                  BoundaryMessage message) {
  sent_.push_back(
      {message.owner, world_.start_send(to.value, name(direction, micro_batch), message.bytes)});
  return absl::OkStatus();
}

absl::Status DirectBoundary::receive(Rank from, BoundaryDirection direction, MicroBatch micro_batch,
                                     std::span<std::byte> into) {
  return annotate(world_.start_receive(from.value, name(direction, micro_batch), into).wait(),
                  "stage boundary");
}

absl::Status DirectBoundary::finish() {
  for (; !sent_.empty(); sent_.pop_front()) {
    RETURN_IF_ERROR(annotate(sent_.front().message.wait(), "stage boundary"));
  }
  return absl::OkStatus();
}

}  // namespace evermoe
