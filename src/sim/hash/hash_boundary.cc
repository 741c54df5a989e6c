#include "sim/hash/hash_boundary.h"

#include <span>

#include "base/error.h"
#include "sim/hash/hash_mix.h"

namespace evermoe {

bool HashBoundary::has_sender(BoundaryDirection direction) const {
  const int stage = stage_ - steps(direction);
  return stage >= 0 && stage < membership_.lanes().stages();
}

void HashBoundary::expect(BoundaryDirection direction, int micro_batch, Boundary& boundary) {
  const auto message = std::make_shared<Message>();
  expected_[{direction, micro_batch}] = message;
  boundary.expect(rank_at(stage_ - steps(direction), micro_batch), direction,
                  MicroBatch(micro_batch), std::as_writable_bytes(std::span(*message)), message);
}

absl::StatusOr<uint64_t> HashBoundary::receive(BoundaryDirection direction, int micro_batch,
                                               Boundary& boundary) {
  const auto expected = expected_.extract({direction, micro_batch});
  const std::shared_ptr<Message> message =
      expected ? expected.mapped() : std::make_shared<Message>();
  RETURN_IF_ERROR(boundary.receive(rank_at(stage_ - steps(direction), micro_batch), direction,
                                   MicroBatch(micro_batch),
                                   std::as_writable_bytes(std::span(*message))));
  uint64_t value = 0;
  for (const uint64_t word : *message) value = mix(value, word);
  return value;
}

absl::Status HashBoundary::send(BoundaryDirection direction, int micro_batch, uint64_t value,
                                Boundary& boundary) {
  const auto message = std::make_shared<Message>();
  for (uint64_t& word : *message) word = value = mix(value);
  return boundary.send(rank_at(stage_ + steps(direction), micro_batch), direction,
                       MicroBatch(micro_batch), {std::as_bytes(std::span(*message)), message});
}

}  // namespace evermoe
