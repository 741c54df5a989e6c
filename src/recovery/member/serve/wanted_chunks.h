// What one process lacks of a slot that another one offers it, and what the other one has of that.
#pragma once

#include <optional>
#include <vector>

#include "protection/snapshots/snapshot_store.h"
#include "recovery/protocol/member_messages.h"

namespace evermoe {

// All that `store` has not.
WantedSlot lacking_in(const SnapshotStore& store, const SlotMessage& slot);
// Of these chunks of the slot those that are wanted; nullopt if there are none at all, or one of
// them is damaged.
std::optional<std::vector<Chunk>> wanted_of(std::vector<Chunk> chunks, const WantedSlot& wanted);

}  // namespace evermoe
