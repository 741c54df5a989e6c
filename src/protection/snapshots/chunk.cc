#include "protection/snapshots/chunk.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the header is written as it lies in memory");

constexpr char kMagic[8] = {'E', 'V', 'M', 'P', 'I', 'E', 'C', 'E'};
constexpr uint32_t kVersion = 1;
constexpr size_t kCheckedBytes = 80;

template <typename T>
void put(std::byte* block, size_t at, const T& value) {
  std::memcpy(block + at, &value, sizeof(value));
}

template <typename T>
T get(const std::byte* block, size_t at) {
  T value;
  std::memcpy(&value, block + at, sizeof(value));
  return value;
}

void encode(const ChunkHeader& header, std::byte* block) {
  std::memset(block, 0, Chunk::kHeaderBytes);
  put(block, 0, kMagic);
  put(block, 8, kVersion);
  put(block, 12, header.owner.value);
  put(block, 16, header.window.value);
  put(block, 24, header.slot);
  put(block, 28, header.slots);
  put(block, 32, header.chunk);
  put(block, 36, header.chunks);
  put(block, 40, header.operator_index);
  put(block, 44, static_cast<uint8_t>(header.kind));
  put(block, 48, header.offset);
  put(block, 56, header.size);
  put(block, 64, header.fingerprint.high);
  put(block, 72, header.fingerprint.low);
  const Fingerprint own = fingerprint({block, kCheckedBytes});
  put(block, 80, own.high);
  put(block, 88, own.low);
}

bool is_sane(const ChunkHeader& h) {
  constexpr int32_t kCountMax = 1 << 24;
  const bool is_gradients = h.kind == SnapshotKind::kGradients;
  const bool is_whole = h.slot == kWholeState || h.slot >= stopped_after_whole(0);
  const bool is_behind_slots = h.slot >= h.slots && !is_whole;
  return h.owner.value >= 0 && h.window.value >= 0 && h.slots >= 1 && h.slots <= kCountMax &&
         h.slot >= 0 && is_behind_slots == is_gradients && h.chunks >= 1 && h.chunks <= kCountMax &&
         h.chunk >= 0 && h.chunk < h.chunks && h.operator_index >= -1 && h.offset >= 0 &&
         h.size >= 0 && h.size <= Chunk::kBytesMax;
}

}  // namespace

Chunk Chunk::make(const ChunkHeader& header) {
  return make(header, std::make_shared_for_overwrite<std::byte[]>(
                          kHeaderBytes + static_cast<size_t>(header.size)));
}

Chunk Chunk::make(const ChunkHeader& header, std::shared_ptr<std::byte[]> block) {
  CHECK(is_sane(header)) << "chunk " << header.chunk << " of " << header.chunks << ", "
                         << header.size << " bytes";
  Chunk chunk;
  chunk.header_ = header;
  chunk.block_ = std::move(block);
  return chunk;
}

absl::StatusOr<Chunk> Chunk::from_block(std::shared_ptr<std::byte[]> block, size_t size) {
  if (size < kHeaderBytes) return Corrupt(absl::StrCat("a chunk of ", size, " bytes"));
  const std::byte* const at = block.get();
  if (std::memcmp(at, kMagic, sizeof(kMagic)) != 0) return Corrupt("not a chunk of a snapshot");
  if (get<uint32_t>(at, 8) != kVersion)
    return Corrupt(absl::StrCat("a chunk of version ", get<uint32_t>(at, 8)));
  if (fingerprint({at, kCheckedBytes}) !=
      Fingerprint{get<uint64_t>(at, 80), get<uint64_t>(at, 88)}) {
    return Corrupt("the header of a chunk is damaged");
  }
  Chunk chunk;
  ChunkHeader& h = chunk.header_;
  h.owner = Rank(get<int32_t>(at, 12));
  h.window = Step(get<int64_t>(at, 16));
  h.slot = get<int32_t>(at, 24);
  h.slots = get<int32_t>(at, 28);
  h.chunk = get<int32_t>(at, 32);
  h.chunks = get<int32_t>(at, 36);
  h.operator_index = get<int32_t>(at, 40);
  const auto kind = get<uint8_t>(at, 44);
  if (kind > static_cast<uint8_t>(SnapshotKind::kGradients))
    return Corrupt("a chunk of unknown kind");
  h.kind = static_cast<SnapshotKind>(kind);
  h.offset = get<int64_t>(at, 48);
  h.size = get<int64_t>(at, 56);
  h.fingerprint = {get<uint64_t>(at, 64), get<uint64_t>(at, 72)};
  if (!is_sane(h) || size != kHeaderBytes + static_cast<size_t>(h.size)) {
    return Corrupt("the header of a chunk makes no sense");
  }
  chunk.block_ = std::move(block);
  return chunk;
}

void Chunk::seal() {
  header_.fingerprint = fingerprint(body());
  encode(header_, block_.get());
}

absl::Status Chunk::verify() const {
  if (fingerprint(body()) == header_.fingerprint) return absl::OkStatus();
  return Corrupt(absl::StrCat("snapshot of rank ", header_.owner.value, ", window ",
                              header_.window.value, ", slot ", header_.slot, ", chunk ",
                              header_.chunk, ": its bytes are not those captured"));
}

}  // namespace evermoe
