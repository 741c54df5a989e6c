#include "recovery/protocol/handed_position.h"

#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace evermoe {

RecordBytes encode(const HandedPosition& handed) {
  const uint64_t size = handed.position.size();
  RecordBytes bytes(sizeof(size));
  std::memcpy(bytes.data(), &size, sizeof(size));
  bytes.insert(bytes.end(), handed.position.begin(), handed.position.end());
  const RecordBytes record = encode(handed.record);
  bytes.insert(bytes.end(), record.begin(), record.end());
  return bytes;
}

absl::StatusOr<HandedPosition> decode_handed_position(std::span<const std::byte> bytes) {
  uint64_t size = 0;
  if (bytes.size() < sizeof(size)) return Corrupt("not a position that was handed over");
  std::memcpy(&size, bytes.data(), sizeof(size));
  bytes = bytes.subspan(sizeof(size));
  if (bytes.size() < size) return Corrupt("not a position that was handed over");
  HandedPosition handed;
  handed.position.assign(bytes.begin(), bytes.begin() + static_cast<int64_t>(size));
  ASSIGN_OR_RETURN(handed.record,
                   decode_record({bytes.begin() + static_cast<int64_t>(size), bytes.end()}));
  return handed;
}

}  // namespace evermoe
