// Answers what other members of the job write: keeps copies of their snapshots, sends back what it
// keeps, and takes what this rank has asked for.
//
// Threads: service thread only.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "comm/transport/signal.h"
#include "recovery/member/restore/window_fetch.h"
#include "recovery/member/serve/joiner_memory.h"
#include "recovery/member/serve/peer_memory.h"
#include "recovery/member/serve/snapshot_copies.h"
#include "recovery/member/train/boundary_exchange.h"
#include "recovery/plan/recovery_memory.h"
#include "recovery/protocol/member_messages.h"
#include "recovery/protocol/message_sender.h"

namespace evermoe {

class MessageAnswers {
 public:
  struct Dependencies {
    Rank rank;
    MemberViews& views;
    RecoveryMemory& memory;
    SnapshotCopies& copies;
    PeerMemory& peers;
    JoinerMemory& joiner;
    BoundaryExchange& exchange;
    MessageSender& sender;
    RefusedSlots& refused;
    Signal& wake_training;
    bool is_rehearsal;  // peers may ask to damage the copies held of them
  };
  explicit MessageAnswers(Dependencies dependencies) : in_(std::move(dependencies)) {}

  // A message of `view`, which is open. Corrupt or Contradiction if it cannot be right: this
  // process has to end. NoCapacity if a copy does not fit though nothing is kept but what the plan
  // says.
  absl::Status on_message(ServiceMessage message, View view);

 private:
  absl::Status on_joiner(const ServiceMessage& message);
  absl::Status on_chunk(ServiceMessage message, View view);
  absl::Status on_damaged_chunk(Rank from, View view, Rank owner, SlotTime time);
  absl::Status on_offer(const ServiceMessage& message, View view);
  absl::Status on_want_slot(const ServiceMessage& message, View view);
  void give_up(SlotTime time);
  absl::Status keep(const Chunk& chunk);
  absl::Status on_forget(Rank owner);
  std::vector<Rank> unassigned_owners() const;
  absl::Status on_acknowledged(const ServiceMessage& message);
  absl::Status on_refused(const ServiceMessage& message);
  absl::Status on_want_records(const ServiceMessage& message, View view);
  absl::Status on_records(const ServiceMessage& message);
  absl::Status on_want_boundary(const ServiceMessage& message, View view);
  absl::Status on_boundary(const ServiceMessage& message);
  absl::Status on_audit(const ServiceMessage& message) const;

  const Dependencies in_;
  std::optional<ChunkHeader> without_room_;  // the last chunk that was not kept
};

}  // namespace evermoe
