// How a member goes back: sets its state aside, gathers what it lacks, restores slot after slot, and
// compares in the end.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "recovery/member.h"

namespace evermoe {

absl::Status Member::roll_back(const Plan& plan) {
  set_aside();
  has_state_ = false;
  conversion_.reset();
  copies_.abandon();
  trainer_.join_stage(plan.view);
  const Step from = plan.window < Step(0) ? plan.base : plan.window;
  RETURN_IF_ERROR(fetch_records(verdict_commit(from), plan.newest));
  ASSIGN_OR_RETURN(const Record there, record_of(verdict_commit(from)));
  follow_rule(there.rule);
  Milestone milestone{plan.view, rank_, Milestone::Kind::kRestored, 0, {}};
  if (plan.window < Step(0)) {
    RETURN_IF_ERROR(trainer_.restore_base(plan.base));
    begin_order(there.rule);
    active_.assign(active_.size(), true);
    milestone.sources.push_back(absl::StrCat("the state at step ", plan.base.value));
  } else {
    ASSIGN_OR_RETURN(milestone.sources, fetch_window(plan.window));
    active_.assign(active_.size(), false);
    conversion_ = Conversion{plan.window, 0};
  }
  fault_point("recovery/restored");
  control_.send(std::move(milestone));
  return absl::OkStatus();
}

// A state that was itself being recomputed proves nothing; then what was set aside before stays.
void Member::set_aside() {
  if (!has_state_) return;
  aside_.step = trainer_.step();
  aside_.operators.clear();
  for (size_t i = 0; i < trainer_.operators().size(); ++i) {
    aside_.operators.push_back(fingerprints_of(static_cast<int>(i)));
  }
}

std::pair<Fingerprint, Fingerprint> Member::fingerprints_of(int operator_index) const {
  const OperatorBytes& bytes = trainer_.operators()[static_cast<size_t>(operator_index)].bytes;
  const auto of = [&](SnapshotKind kind, int64_t size) {
    std::vector<std::byte> buffer(static_cast<size_t>(std::min(size, options_.copies.piece_bytes_max)));
    FingerprintStream stream;
    for (int64_t offset = 0; offset < size; offset += static_cast<int64_t>(buffer.size())) {
      const auto part = std::span(buffer).first(static_cast<size_t>(
          std::min<int64_t>(static_cast<int64_t>(buffer.size()), size - offset)));
      trainer_.capture(operator_index, kind, offset, part);
      stream.update(part);
    }
    return stream.finish();
  };
  return {of(SnapshotKind::kFull, bytes.full), of(SnapshotKind::kComputeOnly, bytes.compute)};
}

absl::Status Member::compare_with_aside() {
  if (aside_.step != trainer_.step()) return absl::OkStatus();
  for (size_t i = 0; i < aside_.operators.size(); ++i) {
    if (fingerprints_of(static_cast<int>(i)) == aside_.operators[i]) continue;
    return Contradiction(absl::StrCat("role ", topology_.name_of(rank_), ", step ", aside_.step.value,
                                ": operator ", trainer_.operators()[i].name,
                                " was recomputed with other bits than it had: a fault of hardware or software"));
  }
  aside_ = {};
  fault_point("catch_up/verified");
  control_.send(Milestone{gate_.newest_view(), rank_, Milestone::Kind::kVerified, 0, {}});
  return absl::OkStatus();
}

absl::Status Member::fetch_records(Commit first, Commit last) {
  View after;
  while (records_.newest() < last) {
    ASSIGN_OR_RETURN(const PlanPointer plan, gate_.pass(after));
    bool answered = false;
    while (records_.newest() < last && gate_.newest_view() == plan->view) {
      if (!answered) post_.send(plan->record_source, plan->view, LetterKind::kWantRecords, encode(first));
      ASSIGN_OR_RETURN(answered, gate_.wait_signal());
    }
    after = plan->view;
  }
  return absl::OkStatus();
}

// Drops slots that are not what was captured.
absl::Status Member::check_own_window(Step window) {
  for (int slot = 0; slot < schedule_.slots(); ++slot) {
    for (const Piece& piece : store_.slot(rank_, {window, slot})) {
      if (piece.verify().ok()) continue;
      store_.drop(rank_, {window, slot});
      break;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Member::fetch_window(Step window) {
  RETURN_IF_ERROR(check_own_window(window));
  std::vector<std::string> taken;  // from where
  const auto take_from = [&](const std::string& source) {
    const std::string line = absl::StrCat("window ", window.value, " from ", source);
    if (taken.empty() || taken.back() != line) taken.push_back(line);
  };
  std::vector<Rank> asked;  // sources of the newest plan that was needed
  View view;
  size_t next_source = 0;
  int asked_slot = -1;
  for (int slot = 0; slot < schedule_.slots();) {
    if (store_.has_slot(rank_, {window, slot})) {
      if (next_source >= asked.size() || asked_slot != slot) take_from("its own memory");
      else take_from(topology_.name_of(asked[next_source]));
      ++slot;
      continue;
    }
    ASSIGN_OR_RETURN(const PlanPointer plan, gate_.pass());
    if (plan->view != view) {
      view = plan->view;
      next_source = 0;
      asked = plan->sources.empty() ? std::vector<Rank>() : plan->sources[static_cast<size_t>(rank_.value)];
      std::erase(asked, rank_);
    }
    if (next_source >= asked.size()) {
      report_trouble(view, NotFound(absl::StrCat("no source has a usable copy of window ", window.value, ", slot ", slot)),
                     false, /*copies_unusable=*/true);
      RETURN_IF_ERROR(gate_.pass(view).status());
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      cannot_.reset();
    }
    asked_slot = slot;
    bool refused = false, answered = false;
    while (!refused && !store_.has_slot(rank_, {window, slot}) && gate_.newest_view() == view) {
      if (!answered) post_.send(asked[next_source], view, LetterKind::kWantSlot, encode(SlotLetter{rank_, {window, slot}}));
      ASSIGN_OR_RETURN(answered, gate_.wait_signal());
      const std::lock_guard lock(mutex_);
      refused = cannot_ && cannot_->time == SlotTime{window, slot};
      if (refused) ++work_.copies_refused;
    }
    if (refused) {
      taken.push_back(absl::StrCat("the copy of ", topology_.name_of(asked[next_source]), " was damaged or gone"));
      ++next_source;
    }
  }
  if (view != View(0)) copies_.adopt(window, schedule_.slots(), asked);
  return taken;
}

RecordBytes Member::position() const {
  RecordBytes position = ordering_.state();
  const RecordBytes of_trainer = trainer_.position();
  position.insert(position.end(), of_trainer.begin(), of_trainer.end());
  return position;
}

absl::Status Member::take_position(std::span<const std::byte> position) {
  const size_t order_size = ordering_.state().size();
  if (position.size() < order_size) return Corrupt("not a position of this stage");
  RETURN_IF_ERROR(ordering_.set_state(position.first(order_size)));
  schedule_ = CaptureSchedule(schedule_.rule(), ordering_.slots_of_operators(schedule_.slots()));
  if (ordering_.is_counted()) {
    const std::lock_guard lock(mutex_);
    ++work_.reordered_restores;
  }
  const auto of_trainer = position.subspan(order_size);
  return trainer_.set_position({of_trainer.begin(), of_trainer.end()});
}

absl::Status Member::compare_position(std::span<const std::byte> position) const {
  const RecordBytes own = this->position();
  if (std::equal(own.begin(), own.end(), position.begin(), position.end())) return absl::OkStatus();
  return Contradiction(absl::StrCat("state ", trainer_.step().value, ": the records lead to another position than was captured"));
}

absl::Status Member::restore_slot() {
  Conversion& conversion = *conversion_;
  const SlotTime time{conversion.window, conversion.next_slot};
  CHECK(time.slot == 0 || trainer_.step() == schedule_.state_of(time)) << "slot " << time.slot << " at " << trainer_.step();
  std::vector<int> operators;
  for (const Piece& piece : store_.slot(rank_, time)) {
    RETURN_IF_ERROR(piece.verify());
    const PieceHeader& header = piece.header();
    if (header.operator_index < 0) {
      if (time.slot == 0) RETURN_IF_ERROR(take_position(piece.body()));
      RETURN_IF_ERROR(annotate(compare_position(piece.body()), absl::StrCat("window ", time.window.value, ", slot ", time.slot)));
      continue;
    }
    trainer_.restore(header.operator_index, header.kind, header.offset, piece.body());
  }
  for (int i = 0; i < static_cast<int>(active_.size()); ++i) {
    if (schedule_.kind_in(i, time.slot)) operators.push_back(i);
    active_[static_cast<size_t>(i)] = schedule_.is_active_after(i, time.slot);
  }
  RETURN_IF_ERROR(trainer_.complete_restore(operators));
  if (++conversion.next_slot == schedule_.slots()) conversion_.reset();
  return absl::OkStatus();
}

}  // namespace evermoe
