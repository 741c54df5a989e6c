// The service thread of a member: follows the controller, answers letters, keeps copies.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "recovery/member.h"

namespace evermoe {
namespace {

// How long to sleep when nothing is due.
constexpr absl::Duration kIdle = absl::Seconds(10);
// How long one attempt to connect with the processes of a new view may keep letters waiting.
constexpr absl::Duration kMeeting = absl::Milliseconds(20);
constexpr size_t kLettersOfNextViewMax = 1 << 16;

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

}  // namespace

absl::Status Member::serve() {
  const absl::Status status = serve_until_ended();
  gate_.end(status);
  return status;
}

absl::Status Member::serve_until_ended() {
  while (true) {
    service_nanoseconds_ = absl::ToInt64Nanoseconds(clock_.thread_time());
    follow_orders();
    if (gate_.has_ended()) return absl::OkStatus();
    absl::Duration next = std::min(copies_.work(), kIdle);
    if (opening_ != nullptr) {
      open(opening_);
      if (opening_ != nullptr) next = std::min(next, kMeeting);
    }
    absl::StatusOr<Letter> letter = transport_.receive_letter(next);
    if (letter.ok()) {
      handle(*std::move(letter));
    } else if (!absl::IsDeadlineExceeded(letter.status())) {
      return letter.status();
    }
  }
}

void Member::follow_orders() {
  while (true) {
    ControllerMessage order;
    {
      const std::lock_guard lock(mutex_);
      if (orders_.empty()) return;
      order = std::move(orders_.front());
      orders_.pop_front();
    }
    std::visit(Overloaded{[&](const StopOrder& stop) { stop_for(stop); },
                          [&](const Plan& plan) {
                            if (plan.view == gate_.newest_view()) open(std::make_shared<const Plan>(plan));
                          },
                          [&](const ReleaseOrder&) {
                            {
                              const std::lock_guard lock(mutex_);
                              released_ = true;
                            }
                            gate_.end(absl::OkStatus());
                          }},
               order);
  }
}

void Member::stop_for(const StopOrder& order) {
  if (!gate_.stop(order.view)) return;
  opening_ = nullptr;
  recovery_ = order.recovery;
  transport_.revoke(kWorldGroups, View(order.view.value - 1), Cancelled(absl::StrCat("view ", order.view.value, " begins")));
  wake_training_.raise();
  fault_point("recovery/stopped");
  control_.send(report(order.view));
}

Report Member::report(View view) const {
  const ViewGate::Standing standing = gate_.standing();
  Report report;
  report.view = view;
  report.rank = rank_;
  report.stage_epoch = standing.stage_epoch;
  report.is_broken = standing.is_broken;
  report.base = standing.base;
  report.newest = records_.newest();
  if (const auto newest = records_.find(report.newest)) {
    const auto record = decode_record(*newest);
    if (record.ok()) report.complete_window = record->complete_window;
  }
  report.held = store_.held();
  return report;
}

// False if not everybody could be reached yet.
bool Member::connect(const Plan& plan) {
  const absl::Status status = transport_.meet(plan.table, kMeeting);
  if (status.ok()) return true;
  if (!absl::IsDeadlineExceeded(status)) report_trouble(plan.view, status, false);
  return false;
}

void Member::open(PlanPointer plan) {
  opening_ = plan;
  {
    const std::lock_guard lock(mutex_);
    opening_view_ = plan->view;
  }
  if (!connect(*plan)) return;
  opening_ = nullptr;
  fault_point("recovery/connected");
  const bool restarts = plan->restart_all || std::find(plan->rolled_back.begin(), plan->rolled_back.end(), stage_) !=
                                                 plan->rolled_back.end();
  if (restarts) {
    transport_.revoke(kStageGroups, View(plan->view.value - 1),
                      Cancelled(absl::StrCat("the stage begins anew in view ", plan->view.value)));
  }
  if (restarts) copies_.suspend();
  if (plan->restart_all) {
    // Before anything of the new run can come: what is left of the old one must not be taken for it.
    copies_.clear();
    store_.clear();
    log_.clear();
    received_.clear();
  }
  exchange_.on_view();
  if (options_.is_protected) {
    copies_.set_holders(plan->view, plan->holders[static_cast<size_t>(rank_.value)], plan->table);
  }
  gate_.open(plan, restarts);
  control_.send(Milestone{plan->view, rank_, Milestone::Kind::kConnected, 0, {}});
  std::deque<Letter> letters;
  letters.swap(letters_of_next_view_);
  for (Letter& letter : letters) handle(std::move(letter));
}

void Member::handle(Letter letter) {
  const auto kind = static_cast<LetterKind>(letter.tag.purpose);
  if (kind == LetterKind::kWake) return;
  const PlanPointer plan = gate_.plan();
  const View newest = gate_.newest_view();
  const bool is_open = plan != nullptr && plan->view == newest;
  if (letter.tag.view < newest) return;  // its view is over; who sent it has asked, or will ask, again
  if (letter.tag.view == newest && is_open) return handle_in_view(letter, newest);
  // The sender has opened a view that this member is about to open.
  if (letters_of_next_view_.size() < kLettersOfNextViewMax) letters_of_next_view_.push_back(std::move(letter));
}

void Member::handle_in_view(Letter& letter, View view) {
  const absl::Status status = on_letter(static_cast<LetterKind>(letter.tag.purpose), letter, view);
  if (status.ok()) return;
  const absl::Status named = annotate(status, absl::StrCat("letter from rank ", letter.from.value));
  log_error(std::string(named.message()));
  gate_.end(named);
}

absl::Status Member::on_letter(LetterKind kind, Letter& letter, View view) {
  switch (kind) {
    case LetterKind::kPiece:
      return on_piece(letter, view);
    case LetterKind::kAcknowledge: {
      ASSIGN_OR_RETURN(const SlotLetter slot, decode_slot_letter(letter.span()));
      copies_.on_acknowledged(letter.from, slot.time);
      return absl::OkStatus();
    }
    case LetterKind::kWantSlot:
      return on_want_slot(letter, view);
    case LetterKind::kCannot: {
      ASSIGN_OR_RETURN(const SlotLetter slot, decode_slot_letter(letter.span()));
      {
        const std::lock_guard lock(mutex_);
        cannot_ = slot;
      }
      wake_training_.raise();
      return absl::OkStatus();
    }
    case LetterKind::kWantRecords: {
      ASSIGN_OR_RETURN(const Commit first, decode_commit_letter(letter.span()));
      post_.send(letter.from, view, LetterKind::kRecords, encode(records_.from(first)));
      return absl::OkStatus();
    }
    case LetterKind::kRecords: {
      ASSIGN_OR_RETURN(const Records records, decode_records_letter(letter.span()));
      for (const auto& [commit, record] : records) RETURN_IF_ERROR(records_.put(commit, record));
      wake_training_.raise();
      return absl::OkStatus();
    }
    case LetterKind::kWantBoundary: {
      ASSIGN_OR_RETURN(const BoundaryLetter wanted, decode_boundary_letter(letter.span()));
      exchange_.on_wanted(letter.from, view, wanted.name);
      return absl::OkStatus();
    }
    case LetterKind::kBoundary: {
      ASSIGN_OR_RETURN(const BoundaryLetter arrived, decode_boundary_letter(letter.span()));
      exchange_.on_arrived(arrived);
      wake_training_.raise();
      return absl::OkStatus();
    }
    case LetterKind::kAudit:
      return on_audit(letter);
    case LetterKind::kSpoil:
      if (!options_.is_rehearsal) break;
      store_.corrupt(letter.from);
      return absl::OkStatus();
    case LetterKind::kWake:
      return absl::OkStatus();
  }
  return Corrupt("a letter of unknown kind");
}

absl::Status Member::on_piece(Letter& letter, View view) {
  const size_t size = letter.size;
  ASSIGN_OR_RETURN(const Piece piece, Piece::from_block(std::shared_ptr<std::byte[]>(letter.bytes.release()), size));
  const PieceHeader& header = piece.header();
  const SlotTime time{header.window, header.slot};
  const bool is_own = header.owner == rank_;
  if (!piece.verify().ok()) {
    // Damaged on the way. A source is given up, an owner is asked again.
    log_warning(absl::StrCat("a damaged piece from rank ", letter.from.value));
    if (!is_own) {
      post_.send(letter.from, view, LetterKind::kWantSlot, encode(SlotLetter{header.owner, time}));
      return absl::OkStatus();
    }
    {
      const std::lock_guard lock(mutex_);
      cannot_ = SlotLetter{rank_, time};
    }
    wake_training_.raise();
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(store_.add(piece));
  fault_point("copy/stored");
  if (!store_.has_slot(header.owner, time)) return absl::OkStatus();
  if (is_own) {
    wake_training_.raise();
  } else {
    post_.send(letter.from, view, LetterKind::kAcknowledge, encode(SlotLetter{header.owner, time}));
  }
  return absl::OkStatus();
}

absl::Status Member::on_want_slot(const Letter& letter, View view) {
  ASSIGN_OR_RETURN(const SlotLetter wanted, decode_slot_letter(letter.span()));
  const std::vector<Piece> pieces = store_.slot(wanted.owner, wanted.time);
  const bool usable = !pieces.empty() && std::all_of(pieces.begin(), pieces.end(),
                                                     [](const Piece& piece) { return piece.verify().ok(); });
  if (!usable) {
    post_.send(letter.from, view, LetterKind::kCannot, encode(wanted));
    return absl::OkStatus();
  }
  for (const Piece& piece : pieces) post_.send(letter.from, view, LetterKind::kPiece, piece.block(), piece.owner());
  return absl::OkStatus();
}

absl::Status Member::on_audit(const Letter& letter) const {
  ASSIGN_OR_RETURN(const BoundaryLetter audited, decode_boundary_letter(letter.span()));
  ASSIGN_OR_RETURN(const Fingerprint fingerprint, decode_audited(audited));
  return received_.compare(audited.name, fingerprint);
}

}  // namespace evermoe
