// Whom a rank asks for which part of its own snapshots: all who have a slot send a share of its
// chunks at the same time. Shares go round, so that a source that does not answer is no more than
// a delay. Pure.
#pragma once

#include <utility>
#include <vector>

#include "protection/schedule/capture_schedule.h"
#include "recovery/protocol/member_messages.h"

namespace evermoe {

class SourceShares {
 public:
  struct Share {
    Rank source;
    ChunkShare chunks;
    friend bool operator==(const Share&, const Share&) = default;
  };

  SourceShares() = default;
  // Best first, none twice.
  explicit SourceShares(std::vector<Rank> sources) : sources_(std::move(sources)) {}

  // This source has no usable copy of the slot. False if that was known.
  bool refuse(Rank source, SlotTime time);
  // Those that have not refused the slot, and what each of them is to send. Empty: nobody has it.
  std::vector<Share> shares_of(SlotTime time) const;
  // Nothing has come for a while: from now on each sends the share that another one had.
  void rotate() { ++turn_; }
  // Those that have refused nothing.
  std::vector<Rank> sound() const;

 private:
  std::vector<Rank> sources_;
  std::vector<std::pair<Rank, SlotTime>> refused_;
  size_t turn_ = 0;
};

}  // namespace evermoe
