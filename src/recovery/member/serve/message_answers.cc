#include "recovery/member/serve/message_answers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"

namespace evermoe {

absl::Status MessageAnswers::on_message(ServiceMessage message, View view) {
  switch (static_cast<MessageKind>(message.tag.purpose)) {
    case MessageKind::kWake: return absl::OkStatus();
    case MessageKind::kChunk: return on_chunk(std::move(message), view);
    case MessageKind::kAcknowledge: return on_acknowledged(message);
    case MessageKind::kOffer: return on_offer(message, view);
    case MessageKind::kWantSlot: return on_want_slot(message, view);
    case MessageKind::kCannot: return on_refused(message);
    case MessageKind::kWantRecords: return on_want_records(message, view);
    case MessageKind::kRecords: return on_records(message);
    case MessageKind::kWantBoundary: return on_want_boundary(message, view);
    case MessageKind::kBoundary: return on_boundary(message);
    case MessageKind::kAudit: return on_audit(message);
    case MessageKind::kCorrupt:
      if (!in_.is_rehearsal) break;
      in_.memory.store.corrupt(message.from);
      return absl::OkStatus();
  }
  return Corrupt("a message of unknown kind");
}

absl::Status MessageAnswers::on_chunk(ServiceMessage message, View view) {
  const size_t size = message.size;
  ASSIGN_OR_RETURN(const Chunk chunk,
                   Chunk::from_block(std::shared_ptr<std::byte[]>(message.bytes.release()), size));
  const Rank owner = chunk.header().owner;
  const SlotTime time{chunk.header().window, chunk.header().slot};
  if (!chunk.verify().ok()) return on_damaged_chunk(message.from, view, owner, time);
  RETURN_IF_ERROR(in_.memory.store.add(chunk));
  fault_point("copy/stored");
  if (!in_.memory.store.has_slot(owner, time)) return absl::OkStatus();
  if (owner == in_.rank) {
    in_.wake_training.raise();
  } else {
    in_.sender.send(message.from, view, MessageKind::kAcknowledge,
                    encode(SlotMessage{owner, time}));
  }
  return absl::OkStatus();
}

// On the way, or in its source's memory. A source is given up, an owner is asked again.
absl::Status MessageAnswers::on_damaged_chunk(Rank from, View view, Rank owner, SlotTime time) {
  log_warning(absl::StrCat("a damaged chunk from rank ", from.value));
  if (owner == in_.rank) {
    in_.refused.set(from, time);
    in_.wake_training.raise();
  } else {
    want(from, view, {owner, time});
  }
  return absl::OkStatus();
}

absl::Status MessageAnswers::on_offer(const ServiceMessage& message, View view) {
  ASSIGN_OR_RETURN(const SlotMessage offered, decode_slot_message(message.span()));
  if (offered.owner != message.from) return Corrupt("an offer of another one's snapshots");
  if (in_.memory.store.has_slot(offered.owner, offered.time)) {
    in_.sender.send(message.from, view, MessageKind::kAcknowledge, encode(offered));
  } else {
    want(message.from, view, offered);
  }
  return absl::OkStatus();
}

// What is missing of the slot.
void MessageAnswers::want(Rank from, View view, const SlotMessage& slot) {
  WantedSlot wanted{slot, {}};
  for (const Chunk& chunk : in_.memory.store.chunks(slot.owner, slot.time))
    wanted.have.push_back(chunk.header().chunk);
  in_.sender.send(from, view, MessageKind::kWantSlot, encode(wanted));
}

// Of this rank's own snapshots what has been captured so far: the rest follows by itself.
absl::Status MessageAnswers::on_want_slot(const ServiceMessage& message, View view) {
  ASSIGN_OR_RETURN(const WantedSlot wanted, decode_wanted_slot(message.span()));
  const auto& [owner, time] = wanted.slot;
  const bool is_own = owner == in_.rank;
  std::vector<Chunk> chunks =
      is_own ? in_.memory.store.chunks(owner, time) : in_.memory.store.slot(owner, time);
  const bool usable =
      !chunks.empty() && std::all_of(chunks.begin(), chunks.end(),
                                     [](const Chunk& chunk) { return chunk.verify().ok(); });
  if (!usable) {
    in_.sender.send(message.from, view, MessageKind::kCannot, encode(wanted.slot));
    return absl::OkStatus();
  }
  std::erase_if(chunks, [&](const Chunk& chunk) {
    return std::ranges::binary_search(wanted.have, chunk.header().chunk);
  });
  if (is_own) {
    in_.copies.send_wanted(message.from, time, std::move(chunks));
    return absl::OkStatus();
  }
  for (const Chunk& chunk : chunks)
    in_.sender.send(message.from, view, MessageKind::kChunk, chunk.block(), chunk.owner());
  return absl::OkStatus();
}

absl::Status MessageAnswers::on_acknowledged(const ServiceMessage& message) {
  ASSIGN_OR_RETURN(const SlotMessage slot, decode_slot_message(message.span()));
  in_.copies.on_acknowledged(message.from, slot.time);
  return absl::OkStatus();
}

absl::Status MessageAnswers::on_refused(const ServiceMessage& message) {
  ASSIGN_OR_RETURN(const SlotMessage slot, decode_slot_message(message.span()));
  if (slot.owner != in_.rank) return absl::OkStatus();
  in_.refused.set(message.from, slot.time);
  in_.wake_training.raise();
  return absl::OkStatus();
}

absl::Status MessageAnswers::on_want_records(const ServiceMessage& message, View view) {
  ASSIGN_OR_RETURN(const Commit first, decode_commit_message(message.span()));
  in_.sender.send(message.from, view, MessageKind::kRecords,
                  encode(in_.memory.records.from(first)));
  return absl::OkStatus();
}

absl::Status MessageAnswers::on_records(const ServiceMessage& message) {
  ASSIGN_OR_RETURN(const Records records, decode_records_message(message.span()));
  for (const auto& [commit, record] : records)
    RETURN_IF_ERROR(in_.memory.records.put(commit, record));
  in_.wake_training.raise();
  return absl::OkStatus();
}

absl::Status MessageAnswers::on_want_boundary(const ServiceMessage& message, View view) {
  ASSIGN_OR_RETURN(const NamedBoundary wanted, decode_named_boundary(message.span()));
  in_.exchange.on_wanted(message.from, view, wanted.name);
  return absl::OkStatus();
}

absl::Status MessageAnswers::on_boundary(const ServiceMessage& message) {
  ASSIGN_OR_RETURN(const NamedBoundary arrived, decode_named_boundary(message.span()));
  in_.exchange.on_arrived(arrived);
  in_.wake_training.raise();
  return absl::OkStatus();
}

absl::Status MessageAnswers::on_audit(const ServiceMessage& message) const {
  ASSIGN_OR_RETURN(const NamedBoundary audited, decode_named_boundary(message.span()));
  ASSIGN_OR_RETURN(const Fingerprint fingerprint, decode_audited(audited));
  return in_.exchange.on_audit(audited.name, fingerprint);
}

}  // namespace evermoe
