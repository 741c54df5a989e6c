#include "recovery/member/serve/message_answers.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "recovery/member/serve/wanted_chunks.h"

namespace evermoe {

absl::Status MessageAnswers::on_message(ServiceMessage message, View view) {
  if (in_.joiner.is_seat(message.from)) return on_joiner(message);
  switch (static_cast<MessageKind>(message.tag.purpose)) {
    case MessageKind::kWake: return absl::OkStatus();
    case MessageKind::kProbe:
    case MessageKind::kEcho: break;     // link_probes.h
    case MessageKind::kComing: break;   // order_follower.h
    case MessageKind::kConnect: break;  // joiner.h
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
    case MessageKind::kForget: return on_forget(message.from);
    case MessageKind::kCorrupt:
      if (!in_.is_rehearsal) break;
      in_.memory.store.corrupt(message.from);
      return absl::OkStatus();
  }
  return Corrupt("a message of unknown kind");
}

// It says nothing else.
absl::Status MessageAnswers::on_joiner(const ServiceMessage& message) {
  switch (static_cast<MessageKind>(message.tag.purpose)) {
    case MessageKind::kAcknowledge: {
      ASSIGN_OR_RETURN(const SlotMessage slot, decode_slot_message(message.span()));
      in_.joiner.on_acknowledged(slot);
      in_.copies.on_arrived();
      return absl::OkStatus();
    }
    case MessageKind::kWantSlot: {
      ASSIGN_OR_RETURN(const WantedSlot wanted, decode_wanted_slot(message.span()));
      const auto& [owner, time] = wanted.slot;
      in_.joiner.on_wanted(wanted.slot, wanted_of(in_.memory.store.chunks(owner, time), wanted));
      return absl::OkStatus();
    }
    default: return Corrupt("a joiner says what only members say");
  }
}

absl::Status MessageAnswers::on_chunk(ServiceMessage message, View view) {
  const size_t size = message.size;
  ASSIGN_OR_RETURN(const Chunk chunk,
                   Chunk::from_block(std::shared_ptr<std::byte[]>(message.bytes.release()), size));
  const Rank owner = chunk.header().owner;
  const SlotTime time{chunk.header().window, chunk.header().slot};
  if (owner != in_.rank && in_.joiner.gives_only_own()) return absl::OkStatus();
  if (!chunk.verify().ok()) return on_damaged_chunk(message.from, view, owner, time);
  RETURN_IF_ERROR(keep(chunk));
  fault_point("copy/stored");
  const bool is_complete = in_.memory.store.has_slot(owner, time);
  if (owner != in_.rank) in_.joiner.on_kept(chunk, is_complete);
  if (!is_complete) return absl::OkStatus();
  if (owner == in_.rank) {
    in_.wake_training.raise();
  } else {
    in_.sender.send(message.from, view, MessageKind::kAcknowledge,
                    encode(SlotMessage{owner, time}));
  }
  return absl::OkStatus();
}

// Copies of ranks that have other holders now go when those have all, or when they are in the way.
absl::Status MessageAnswers::keep(const Chunk& chunk) {
  const absl::Status kept = in_.memory.store.add(chunk);
  if (!absl::IsResourceExhausted(kept)) return kept;
  const std::vector<Rank> in_the_way = unassigned_owners();
  if (in_the_way.empty()) return kept;
  const auto key = [](const ChunkHeader& c) {
    return std::tuple(c.owner, c.window, c.slot, c.chunk);
  };
  const bool has_come_again = without_room_ && key(*without_room_) == key(chunk.header());
  without_room_ = chunk.header();
  // The owner offers it again, and by then there may be room.
  if (!has_come_again) return absl::OkStatus();
  for (const Rank owner : in_the_way) in_.memory.store.drop_all(owner);
  return in_.memory.store.add(chunk);
}

std::vector<Rank> MessageAnswers::unassigned_owners() const {
  const PlanPointer plan = in_.views.plan();
  std::vector<Rank> owners = in_.memory.store.owners();
  std::erase_if(owners, [&](Rank owner) {
    if (owner == in_.rank) return true;
    const auto at = static_cast<size_t>(owner.value);  // as another process has written it
    return at < plan->holders.size() &&
           std::ranges::find(plan->holders[at], in_.rank) != plan->holders[at].end();
  });
  return owners;
}

absl::Status MessageAnswers::on_forget(Rank owner) {
  const std::vector<Rank> unassigned = unassigned_owners();
  if (std::ranges::find(unassigned, owner) != unassigned.end()) in_.memory.store.drop_all(owner);
  return absl::OkStatus();
}

// On the way, or in its source's memory. A source is given up, an owner is asked again.
absl::Status MessageAnswers::on_damaged_chunk(Rank from, View view, Rank owner, SlotTime time) {
  log_warning(absl::StrCat("a damaged chunk from rank ", from.value));
  if (owner == in_.rank) {
    in_.refused.add(from, time);
    in_.wake_training.raise();
  } else {
    in_.sender.send(from, view, MessageKind::kWantSlot,
                    encode(lacking_in(in_.memory.store, {owner, time})));
  }
  return absl::OkStatus();
}

absl::Status MessageAnswers::on_offer(const ServiceMessage& message, View view) {
  ASSIGN_OR_RETURN(const SlotMessage offered, decode_slot_message(message.span()));
  if (offered.owner != message.from) return Corrupt("an offer of another one's snapshots");
  if (in_.memory.store.has_slot(offered.owner, offered.time)) {
    in_.sender.send(message.from, view, MessageKind::kAcknowledge, encode(offered));
  } else {
    in_.sender.send(message.from, view, MessageKind::kWantSlot,
                    encode(lacking_in(in_.memory.store, offered)));
  }
  return absl::OkStatus();
}

// Of this rank's own snapshots what has been captured so far: the rest follows by itself.
absl::Status MessageAnswers::on_want_slot(const ServiceMessage& message, View view) {
  ASSIGN_OR_RETURN(const WantedSlot wanted, decode_wanted_slot(message.span()));
  const auto& [owner, time] = wanted.slot;
  const bool is_own = owner == in_.rank;
  std::vector<Chunk> chunks =
      is_own ? in_.memory.store.chunks(owner, time) : in_.memory.store.slot(owner, time);
  const bool has_any = !chunks.empty();
  std::optional<std::vector<Chunk>> usable = wanted_of(std::move(chunks), wanted);
  if (!usable) {
    if (is_own && has_any) give_up(time);
    in_.sender.send(message.from, view, MessageKind::kCannot, encode(wanted.slot));
    return absl::OkStatus();
  }
  if (is_own) {
    in_.peers.send_wanted(message.from, *std::move(usable));
    return absl::OkStatus();
  }
  for (const Chunk& chunk : *usable)
    in_.sender.send(message.from, view, MessageKind::kChunk, chunk.block(), chunk.owner());
  return absl::OkStatus();
}

// It is not what was captured, and nobody can be given it: the next window makes up for it.
void MessageAnswers::give_up(SlotTime time) {
  log_warning(absl::StrCat("window ", time.window.value, ", slot ", time.slot,
                           " is damaged here: new holders do without it"));
  in_.copies.give_up(time);
}

absl::Status MessageAnswers::on_acknowledged(const ServiceMessage& message) {
  ASSIGN_OR_RETURN(const SlotMessage slot, decode_slot_message(message.span()));
  in_.peers.on_acknowledged(message.from, slot.time);
  in_.copies.on_arrived();
  return absl::OkStatus();
}

absl::Status MessageAnswers::on_refused(const ServiceMessage& message) {
  ASSIGN_OR_RETURN(const SlotMessage slot, decode_slot_message(message.span()));
  if (slot.owner != in_.rank) return absl::OkStatus();
  in_.refused.add(message.from, slot.time);
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
