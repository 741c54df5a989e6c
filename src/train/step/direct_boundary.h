// The boundaries of a job that no process leaves: messages go straight to their receivers.
#pragma once

#include <deque>
#include <memory>

#include "comm/communicator.h"
#include "protection/logs/commit.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

class DirectBoundary final : public Boundary {
 public:
  // `world` has all ranks in rank order and outlives the boundary.
  explicit DirectBoundary(Communicator& world) : world_(world) {}

  // The messages that follow belong to the work that leads to `commit`.
  void begin(Commit commit) { commit_ = commit; }
  // Waits until everything sent has left.
  absl::Status finish();

  absl::Status send(Rank to, BoundaryDirection direction, MicroBatch micro_batch,
                    BoundaryMessage message) override;
  absl::Status receive(Rank from, BoundaryDirection direction, MicroBatch micro_batch,
                       std::span<std::byte> into) override;

 private:
  struct Sent {
    std::shared_ptr<const void> owner;  // of the bytes; released after the message
    PendingMessage message;
  };

  uint32_t name(BoundaryDirection direction, MicroBatch micro_batch) const;

  Communicator& world_;
  Commit commit_;
  std::deque<Sent> sent_;
};

}  // namespace evermoe
