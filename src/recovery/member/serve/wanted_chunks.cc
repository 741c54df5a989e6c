#include "recovery/member/serve/wanted_chunks.h"

#include <algorithm>

namespace evermoe {

WantedSlot lacking_in(const SnapshotStore& store, const SlotMessage& slot) {
  WantedSlot wanted{slot, {}};
  for (const Chunk& chunk : store.chunks(slot.owner, slot.time))
    wanted.have.push_back(chunk.header().chunk);
  return wanted;
}

std::optional<std::vector<Chunk>> wanted_of(std::vector<Chunk> chunks, const WantedSlot& wanted) {
  if (chunks.empty()) return std::nullopt;
  std::erase_if(chunks, [&](const Chunk& chunk) {
    return !wanted.share.contains(chunk.header().chunk) ||
           std::ranges::binary_search(wanted.have, chunk.header().chunk);
  });
  if (!std::ranges::all_of(chunks, [](const Chunk& chunk) { return chunk.verify().ok(); }))
    return std::nullopt;
  return chunks;
}

}  // namespace evermoe
