#include "recovery/letter_answers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"

namespace evermoe {

absl::Status LetterAnswers::on_letter(Letter letter, View view) {
  switch (static_cast<LetterKind>(letter.tag.purpose)) {
    case LetterKind::kWake: return absl::OkStatus();
    case LetterKind::kPiece: return on_piece(std::move(letter), view);
    case LetterKind::kAcknowledge: return on_acknowledged(letter);
    case LetterKind::kWantSlot: return on_want_slot(letter, view);
    case LetterKind::kCannot: return on_refused(letter);
    case LetterKind::kWantRecords: return on_want_records(letter, view);
    case LetterKind::kRecords: return on_records(letter);
    case LetterKind::kWantBoundary: return on_want_boundary(letter, view);
    case LetterKind::kBoundary: return on_boundary(letter);
    case LetterKind::kAudit: return on_audit(letter);
    case LetterKind::kSpoil:
      if (!in_.is_rehearsal) break;
      in_.memory.store.corrupt(letter.from);
      return absl::OkStatus();
  }
  return Corrupt("a letter of unknown kind");
}

absl::Status LetterAnswers::on_piece(Letter letter, View view) {
  const size_t size = letter.size;
  ASSIGN_OR_RETURN(const Piece piece, Piece::from_block(std::shared_ptr<std::byte[]>(letter.bytes.release()), size));
  const Rank owner = piece.header().owner;
  const SlotTime time{piece.header().window, piece.header().slot};
  if (!piece.verify().ok()) return on_damaged_piece(letter.from, view, owner, time);
  RETURN_IF_ERROR(in_.memory.store.add(piece));
  fault_point("copy/stored");
  if (!in_.memory.store.has_slot(owner, time)) return absl::OkStatus();
  if (owner == in_.rank) {
    in_.wake_training.raise();
  } else {
    in_.post.send(letter.from, view, LetterKind::kAcknowledge, encode(SlotLetter{owner, time}));
  }
  return absl::OkStatus();
}

// On the way, or in its source's memory. A source is given up, an owner is asked again.
absl::Status LetterAnswers::on_damaged_piece(Rank from, View view, Rank owner, SlotTime time) {
  log_warning(absl::StrCat("a damaged piece from rank ", from.value));
  if (owner == in_.rank) {
    in_.refused.set({owner, time});
    in_.wake_training.raise();
  } else {
    in_.post.send(from, view, LetterKind::kWantSlot, encode(SlotLetter{owner, time}));
  }
  return absl::OkStatus();
}

absl::Status LetterAnswers::on_want_slot(const Letter& letter, View view) {
  ASSIGN_OR_RETURN(const SlotLetter wanted, decode_slot_letter(letter.span()));
  const std::vector<Piece> pieces = in_.memory.store.slot(wanted.owner, wanted.time);
  const bool usable = !pieces.empty() && std::all_of(pieces.begin(), pieces.end(),
                                                     [](const Piece& piece) { return piece.verify().ok(); });
  if (!usable) {
    in_.post.send(letter.from, view, LetterKind::kCannot, encode(wanted));
    return absl::OkStatus();
  }
  for (const Piece& piece : pieces) in_.post.send(letter.from, view, LetterKind::kPiece, piece.block(), piece.owner());
  return absl::OkStatus();
}

absl::Status LetterAnswers::on_acknowledged(const Letter& letter) {
  ASSIGN_OR_RETURN(const SlotLetter slot, decode_slot_letter(letter.span()));
  in_.copies.on_acknowledged(letter.from, slot.time);
  return absl::OkStatus();
}

absl::Status LetterAnswers::on_refused(const Letter& letter) {
  ASSIGN_OR_RETURN(const SlotLetter slot, decode_slot_letter(letter.span()));
  in_.refused.set(slot);
  in_.wake_training.raise();
  return absl::OkStatus();
}

absl::Status LetterAnswers::on_want_records(const Letter& letter, View view) {
  ASSIGN_OR_RETURN(const Commit first, decode_commit_letter(letter.span()));
  in_.post.send(letter.from, view, LetterKind::kRecords, encode(in_.memory.records.from(first)));
  return absl::OkStatus();
}

absl::Status LetterAnswers::on_records(const Letter& letter) {
  ASSIGN_OR_RETURN(const Records records, decode_records_letter(letter.span()));
  for (const auto& [commit, record] : records) RETURN_IF_ERROR(in_.memory.records.put(commit, record));
  in_.wake_training.raise();
  return absl::OkStatus();
}

absl::Status LetterAnswers::on_want_boundary(const Letter& letter, View view) {
  ASSIGN_OR_RETURN(const BoundaryLetter wanted, decode_boundary_letter(letter.span()));
  in_.exchange.on_wanted(letter.from, view, wanted.name);
  return absl::OkStatus();
}

absl::Status LetterAnswers::on_boundary(const Letter& letter) {
  ASSIGN_OR_RETURN(const BoundaryLetter arrived, decode_boundary_letter(letter.span()));
  in_.exchange.on_arrived(arrived);
  in_.wake_training.raise();
  return absl::OkStatus();
}

absl::Status LetterAnswers::on_audit(const Letter& letter) const {
  ASSIGN_OR_RETURN(const BoundaryLetter audited, decode_boundary_letter(letter.span()));
  ASSIGN_OR_RETURN(const Fingerprint fingerprint, decode_audited(audited));
  return in_.memory.received.compare(audited.name, fingerprint);
}

}  // namespace evermoe
