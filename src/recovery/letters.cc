#include "recovery/letters.h"

#include <cstring>

#include "base/error.h"

namespace evermoe {
namespace {

template <typename T>
void put(LetterBytes& bytes, const T& value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

template <typename T>
bool take(std::span<const std::byte>& bytes, T& value) {
  if (bytes.size() < sizeof(T)) return false;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes = bytes.subspan(sizeof(T));
  return true;
}

void put_name(LetterBytes& bytes, const BoundaryName& name) {
  put(bytes, name.commit.value);
  put(bytes, static_cast<uint32_t>(name.direction));
  put(bytes, name.micro_batch.value);
}

}  // namespace

LetterBytes encode(const SlotLetter& letter) {
  LetterBytes bytes;
  put(bytes, letter.owner.value);
  put(bytes, int32_t{letter.time.slot});
  put(bytes, letter.time.window.value);
  return bytes;
}

absl::StatusOr<SlotLetter> decode_slot_letter(std::span<const std::byte> bytes) {
  SlotLetter letter;
  int32_t slot = 0;
  if (!take(bytes, letter.owner.value) || !take(bytes, slot) || !take(bytes, letter.time.window.value) ||
      !bytes.empty() || letter.owner.value < 0 || slot < 0 || letter.time.window.value < 0) {
    return Corrupt("not a letter about a slot");
  }
  letter.time.slot = slot;
  return letter;
}

LetterBytes encode(Commit commit) {
  LetterBytes bytes;
  put(bytes, commit.value);
  return bytes;
}

absl::StatusOr<Commit> decode_commit_letter(std::span<const std::byte> bytes) {
  Commit commit;
  if (!take(bytes, commit.value) || !bytes.empty()) return Corrupt("not a letter about a commit");
  return commit;
}

LetterBytes encode(const Records& records) {
  LetterBytes bytes;
  for (const auto& [commit, record] : records) {
    put(bytes, commit.value);
    put(bytes, static_cast<uint32_t>(record.size()));
    bytes.insert(bytes.end(), record.begin(), record.end());
  }
  return bytes;
}

absl::StatusOr<Records> decode_records_letter(std::span<const std::byte> bytes) {
  Records records;
  while (!bytes.empty()) {
    Commit commit;
    uint32_t size = 0;
    if (!take(bytes, commit.value) || !take(bytes, size) || bytes.size() < size) return Corrupt("not a letter of records");
    records.emplace_back(commit, RecordBytes(bytes.begin(), bytes.begin() + size));
    bytes = bytes.subspan(size);
  }
  return records;
}

LetterBytes encode(const BoundaryLetter& letter) {
  LetterBytes bytes;
  bytes.reserve(16 + letter.bytes.size());
  put_name(bytes, letter.name);
  bytes.insert(bytes.end(), letter.bytes.begin(), letter.bytes.end());
  return bytes;
}

absl::StatusOr<BoundaryLetter> decode_boundary_letter(std::span<const std::byte> bytes) {
  BoundaryLetter letter;
  uint32_t direction = 0;
  if (!take(bytes, letter.name.commit.value) || !take(bytes, direction) ||
      !take(bytes, letter.name.micro_batch.value) || direction > static_cast<uint32_t>(BoundaryDirection::kGradient)) {
    return Corrupt("not a letter about a boundary");
  }
  letter.name.direction = static_cast<BoundaryDirection>(direction);
  letter.bytes = bytes;
  return letter;
}

LetterBytes encode_audit(const BoundaryName& name, const Fingerprint& fingerprint) {
  LetterBytes bytes;
  put_name(bytes, name);
  put(bytes, fingerprint.high);
  put(bytes, fingerprint.low);
  return bytes;
}

absl::StatusOr<Fingerprint> decode_audited(const BoundaryLetter& letter) {
  std::span<const std::byte> bytes = letter.bytes;
  Fingerprint fingerprint;
  if (!take(bytes, fingerprint.high) || !take(bytes, fingerprint.low) || !bytes.empty()) {
    return Corrupt("not a letter about a fingerprint");
  }
  return fingerprint;
}

}  // namespace evermoe
