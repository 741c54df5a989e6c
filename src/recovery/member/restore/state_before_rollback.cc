#include "recovery/member/restore/state_before_rollback.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

void StateBeforeRollback::note() {
  if (trainer_.step() < step_) return;
  step_ = trainer_.step();
  operators_.clear();
  for (size_t i = 0; i < trainer_.operators().size(); ++i) {
    operators_.push_back(fingerprints_of(static_cast<int>(i)));
  }
}

absl::StatusOr<bool> StateBeforeRollback::compare() {
  if (step_ != trainer_.step()) return false;
  std::vector<std::string> differences;
  for (size_t i = 0; i < operators_.size(); ++i) {
    const int index = static_cast<int>(i);
    const auto& [full_before, compute_before] = operators_[i];
    const auto [full, compute] = fingerprints_of(index);
    std::string difference = difference_of(index, SnapshotKind::kFull, full_before, full);
    const std::string other =
        difference_of(index, SnapshotKind::kComputeOnly, compute_before, compute);
    if (difference.empty()) difference = other;
    if (!difference.empty()) differences.push_back(std::move(difference));
  }
  if (!differences.empty()) {
    const size_t others = differences.size() - 1;
    return Contradiction(absl::StrCat(
        "step ", step_.value, ": ", differences.front(),
        others == 0 ? "" : absl::StrCat("; ", others, " more operators differ"),
        ": what was recomputed has other bits than before, a fault of hardware or software"));
  }
  forget();
  return true;
}

std::string StateBeforeRollback::difference_of(int operator_index, SnapshotKind kind,
                                               const Fingerprint& before, const Fingerprint& now) {
  if (before == now) return "";
  const std::string what = absl::StrCat(
      "operator ", trainer_.operators()[static_cast<size_t>(operator_index)].name,
      kind == SnapshotKind::kFull ? ", master weights and moments" : ", compute weights");
  const int64_t size = bytes_of(operator_index, kind);
  std::vector<std::byte> bytes(witnesses_.has_room_for(size) ? static_cast<size_t>(size) : 0);
  if (!bytes.empty()) trainer_.capture(operator_index, kind, 0, bytes);
  witnesses_.add(what, before, now, {}, bytes);
  return absl::StrCat(what, ": fingerprint ", to_hex(now), " instead of ", to_hex(before));
}

int64_t StateBeforeRollback::bytes_of(int operator_index, SnapshotKind kind) const {
  const OperatorBytes& bytes = trainer_.operators()[static_cast<size_t>(operator_index)].bytes;
  return kind == SnapshotKind::kFull ? bytes.full : bytes.compute;
}

StateBeforeRollback::Fingerprints StateBeforeRollback::fingerprints_of(int operator_index) const {
  return {fingerprint_of(operator_index, SnapshotKind::kFull),
          fingerprint_of(operator_index, SnapshotKind::kComputeOnly)};
}

Fingerprint StateBeforeRollback::fingerprint_of(int operator_index, SnapshotKind kind) const {
  const int64_t size = bytes_of(operator_index, kind);
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(size, bytes_at_once_)));
  FingerprintStream stream;
  for (int64_t offset = 0; offset < size; offset += std::ssize(buffer)) {
    const auto part =
        std::span(buffer).first(static_cast<size_t>(std::min(std::ssize(buffer), size - offset)));
    trainer_.capture(operator_index, kind, offset, part);
    stream.update(part);
  }
  return stream.finish();
}

}  // namespace evermoe
