#include "recovery/protocol/member_messages.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace evermoe {
namespace {

template <typename T>
void put(MessageBytes& bytes, const T& value) {
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

bool take_slot(std::span<const std::byte>& bytes, SlotMessage& message) {
  int32_t slot = 0;
  if (!take(bytes, message.owner.value) || !take(bytes, slot) ||
      !take(bytes, message.time.window.value)) {
    return false;
  }
  message.time.slot = slot;
  return message.owner.value >= 0 && slot >= 0 && message.time.window.value >= 0;
}

void put_address(MessageBytes& bytes, const PeerAddress& peer) {
  put(bytes, peer.since.value);
  put(bytes, static_cast<uint32_t>(peer.address.size()));
  const auto text = std::as_bytes(std::span(peer.address));
  bytes.insert(bytes.end(), text.begin(), text.end());
}

bool take_address(std::span<const std::byte>& bytes, PeerAddress& peer) {
  uint32_t size = 0;
  if (!take(bytes, peer.since.value) || !take(bytes, size) || size > bytes.size()) return false;
  peer.address.assign(reinterpret_cast<const char*>(bytes.data()), size);
  bytes = bytes.subspan(size);
  return true;
}

void put_name(MessageBytes& bytes, const BoundaryName& name) {
  put(bytes, name.commit.value);
  put(bytes, static_cast<uint32_t>(name.direction));
  put(bytes, name.micro_batch.value);
}

}  // namespace

MessageBytes encode(const SlotMessage& message) {
  MessageBytes bytes;
  put(bytes, message.owner.value);
  put(bytes, int32_t{message.time.slot});
  put(bytes, message.time.window.value);
  return bytes;
}

absl::StatusOr<SlotMessage> decode_slot_message(std::span<const std::byte> bytes) {
  SlotMessage message;
  if (!take_slot(bytes, message) || !bytes.empty()) return Corrupt("not a message about a slot");
  return message;
}

MessageBytes encode(const WantedSlot& message) {
  MessageBytes bytes = encode(message.slot);
  put(bytes, message.share.remainder);
  put(bytes, message.share.divisor);
  for (const int32_t chunk : message.have) put(bytes, chunk);
  return bytes;
}

absl::StatusOr<WantedSlot> decode_wanted_slot(std::span<const std::byte> bytes) {
  WantedSlot message;
  auto& [remainder, divisor] = message.share;
  bool is_sound = take_slot(bytes, message.slot) && take(bytes, remainder) &&
                  take(bytes, divisor) && 0 <= remainder && remainder < divisor;
  for (int32_t before = -1, chunk = 0; is_sound && !bytes.empty(); before = chunk) {
    is_sound = take(bytes, chunk) && chunk > before;
    message.have.push_back(chunk);
  }
  if (!is_sound) return Corrupt("not a message that wants a slot");
  return message;
}

MessageBytes encode(const PeerAddress& address) {
  MessageBytes bytes;
  put_address(bytes, address);
  return bytes;
}

absl::StatusOr<PeerAddress> decode_peer_address(std::span<const std::byte> bytes) {
  PeerAddress address;
  if (!take_address(bytes, address) || !bytes.empty()) return Corrupt("not an address");
  return address;
}

MessageBytes encode(const Neighbours& neighbours) {
  MessageBytes bytes;
  for (const auto& [rank, neighbour] : neighbours) {
    put(bytes, rank.value);
    put(bytes, static_cast<uint8_t>(neighbour.messages));
    put(bytes, static_cast<uint8_t>(neighbour.service_messages));
    put_address(bytes, neighbour.address);
    put_address(bytes, neighbour.joiner);
  }
  return bytes;
}

absl::StatusOr<Neighbours> decode_neighbours(std::span<const std::byte> bytes) {
  Neighbours neighbours;
  for (Rank before(-1), rank; !bytes.empty(); before = rank) {
    uint8_t messages = 0, service_messages = 0;
    if (!take(bytes, rank.value) || rank <= before || !take(bytes, messages) ||
        !take(bytes, service_messages) || std::max(messages, service_messages) > 1 ||
        !take_address(bytes, neighbours[rank].address) ||
        !take_address(bytes, neighbours[rank].joiner))
      return Corrupt("not a message about neighbours");
    neighbours[rank].messages = messages != 0;
    neighbours[rank].service_messages = service_messages != 0;
  }
  return neighbours;
}

MessageBytes encode_probe(uint64_t number, size_t size) {
  MessageBytes bytes;
  put(bytes, number);
  bytes.resize(std::max(bytes.size(), size));
  return bytes;
}

absl::StatusOr<uint64_t> decode_probe(std::span<const std::byte> bytes) {
  uint64_t number = 0;
  if (!take(bytes, number)) return Corrupt("not a probe or its echo");
  return number;
}

MessageBytes encode(Commit commit) {
  MessageBytes bytes;
  put(bytes, commit.value);
  return bytes;
}

absl::StatusOr<Commit> decode_commit_message(std::span<const std::byte> bytes) {
  Commit commit;
  if (!take(bytes, commit.value) || !bytes.empty()) return Corrupt("not a message about a commit");
  return commit;
}

MessageBytes encode(const Records& records) {
  MessageBytes bytes;
  for (const auto& [commit, record] : records) {
    put(bytes, commit.value);
    put(bytes, static_cast<uint32_t>(record.size()));
    bytes.insert(bytes.end(), record.begin(), record.end());
  }
  return bytes;
}

absl::StatusOr<Records> decode_records_message(std::span<const std::byte> bytes) {
  Records records;
  while (!bytes.empty()) {
    Commit commit;
    uint32_t size = 0;
    if (!take(bytes, commit.value) || !take(bytes, size) || bytes.size() < size)
      return Corrupt("not a message of records");
    records.emplace_back(commit, RecordBytes(bytes.begin(), bytes.begin() + size));
    bytes = bytes.subspan(size);
  }
  return records;
}

MessageBytes encode(const NamedBoundary& message) {
  MessageBytes bytes;
  bytes.reserve(16 + message.bytes.size());
  put_name(bytes, message.name);
  bytes.insert(bytes.end(), message.bytes.begin(), message.bytes.end());
  return bytes;
}

absl::StatusOr<NamedBoundary> decode_named_boundary(std::span<const std::byte> bytes) {
  NamedBoundary message;
  uint32_t direction = 0;
  if (!take(bytes, message.name.commit.value) || !take(bytes, direction) ||
      !take(bytes, message.name.micro_batch.value) ||
      direction > static_cast<uint32_t>(BoundaryDirection::kGradient)) {
    return Corrupt("not a message about a boundary");
  }
  message.name.direction = static_cast<BoundaryDirection>(direction);
  message.bytes = bytes;
  return message;
}

MessageBytes encode_audit(const BoundaryName& name, const Fingerprint& fingerprint) {
  MessageBytes bytes;
  put_name(bytes, name);
  put(bytes, fingerprint.high);
  put(bytes, fingerprint.low);
  return bytes;
}

absl::StatusOr<Fingerprint> decode_audited(const NamedBoundary& message) {
  std::span<const std::byte> bytes = message.bytes;
  Fingerprint fingerprint;
  if (!take(bytes, fingerprint.high) || !take(bytes, fingerprint.low) || !bytes.empty()) {
    return Corrupt("not a message about a fingerprint");
  }
  return fingerprint;
}

}  // namespace evermoe
