// Values of the hash model on their way between stages: a micro-batch's activation to the next
// stage, its gradient to the one before.
//
// Threads: training thread only.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "parallel/membership.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

class HashBoundary {
 public:
  // `membership` outlives it: who trains at the state at hand.
  HashBoundary(const Membership& membership, int stage) : membership_(membership), stage_(stage) {}

  // Whether there is a stage that sends this one values of that direction.
  bool has_sender(BoundaryDirection direction) const;
  // What a former attempt was told to expect is forgotten.
  void begin() { expected_.clear(); }
  // Tells `boundary` what will be received. REQUIRES: has_sender(direction)
  void expect(BoundaryDirection direction, int micro_batch, Boundary& boundary);
  // REQUIRES: has_sender(direction)
  absl::StatusOr<uint64_t> receive(BoundaryDirection direction, int micro_batch,
                                   Boundary& boundary);
  // Forwards with kActivation, back with kGradient. REQUIRES: there is a stage.
  absl::Status send(BoundaryDirection direction, int micro_batch, uint64_t value,
                    Boundary& boundary);

 private:
  // The value, hashed over and over, so that every byte of a message counts.
  using Message = std::array<uint64_t, 8>;

  static int steps(BoundaryDirection direction) {
    return direction == BoundaryDirection::kActivation ? 1 : -1;
  }
  // Who has the micro-batch in that stage.
  Rank rank_at(int stage, int micro_batch) const {
    return membership_.rank_at({stage, micro_batch % membership_.lanes().lanes(stage)});
  }

  const Membership& membership_;
  const int stage_;
  std::map<std::pair<BoundaryDirection, int>, std::shared_ptr<Message>> expected_;
};

}  // namespace evermoe
