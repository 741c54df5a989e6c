#include "recovery/member/restore/state_before_rollback.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

void StateBeforeRollback::note() {
  step_ = trainer_.step();
  operators_.clear();
  for (size_t i = 0; i < trainer_.operators().size(); ++i) {
    operators_.push_back(fingerprints_of(static_cast<int>(i)));
  }
}

absl::StatusOr<bool> StateBeforeRollback::compare() {
  if (step_ != trainer_.step()) return false;
  for (size_t i = 0; i < operators_.size(); ++i) {
    if (fingerprints_of(static_cast<int>(i)) == operators_[i]) continue;
    return Contradiction(absl::StrCat(
        "step ", step_.value, ": operator ", trainer_.operators()[i].name,
        " was recomputed with other bits than it had: a fault of hardware or software"));
  }
  forget();
  return true;
}

StateBeforeRollback::Fingerprints StateBeforeRollback::fingerprints_of(int operator_index) const {
  const OperatorBytes& bytes = trainer_.operators()[static_cast<size_t>(operator_index)].bytes;
  return {fingerprint_of(operator_index, SnapshotKind::kFull, bytes.full),
          fingerprint_of(operator_index, SnapshotKind::kComputeOnly, bytes.compute)};
}

Fingerprint StateBeforeRollback::fingerprint_of(int operator_index, SnapshotKind kind,
                                                int64_t size) const {
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
