#include "checkpoint/read/shard_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr size_t kOpenFilesMax = 64;
// What the disk is asked for ahead of the hashing.
constexpr int64_t kAheadBytes = 32 << 20;

}  // namespace

absl::StatusOr<ShardReader::OpenFile*> ShardReader::open_file(int index) {
  const auto known = open_.find(index);
  if (known != open_.end()) return &known->second;
  if (open_.size() >= kOpenFilesMax) open_.clear();
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> opened, files_.open(path(index)));
  return &(open_[index] = OpenFile{std::move(opened)});
}

absl::StatusOr<ReadableFile*> ShardReader::file(int index) {
  ASSIGN_OR_RETURN(OpenFile* const opened, open_file(index));
  return opened->file.get();
}

absl::Status ShardReader::read_block(OpenFile& source, int64_t offset, std::span<std::byte> into) {
  const int64_t end = offset + static_cast<int64_t>(into.size());
  const bool goes_on = offset == source.read_to;
  source.read_to = end;
  // A single small tensor does not drag in its neighbours: only the second block of a run looks
  // ahead.
  if (!goes_on) source.fetched_to = end;
  const int64_t wanted = std::min(end + kAheadBytes, source.file->size());
  if (goes_on && source.fetched_to < wanted && source.fetched_to < end + kAheadBytes / 2) {
    source.fetched_to = std::max(source.fetched_to, end);
    source.file->prefetch(source.fetched_to, wanted - source.fetched_to);
    source.fetched_to = wanted;
  }
  return source.file->read_at(offset, into);
}

absl::Status ShardReader::check(const ManifestOperator& op, const ManifestShard& shard,
                                StatePart part, const Fingerprint& found) const {
  if (found == shard.parts[static_cast<size_t>(part)].fingerprint) return absl::OkStatus();
  return Corrupt(absl::StrCat(path(shard.file), ": operator ", op.name, " ", to_string(part),
                              ", elements ", shard.range.begin, " to ", shard.range.end,
                              ": the fingerprint does not match the bytes"));
}

absl::Status ShardReader::stream(const ManifestOperator& op, const ManifestShard& shard,
                                 StatePart part, const TakeBlock& take) {
  ASSIGN_OR_RETURN(OpenFile* const source, open_file(shard.file));
  const int64_t base = shard.parts[static_cast<size_t>(part)].offset;
  const int64_t bytes = manifest_.tensor_bytes(shard, part);
  block_.resize(static_cast<size_t>(kReadBlockBytes));
  FingerprintStream hash;
  for (int64_t at = 0; at < bytes; at += kReadBlockBytes) {
    const std::span<std::byte> block =
        std::span(block_).first(static_cast<size_t>(std::min(kReadBlockBytes, bytes - at)));
    RETURN_IF_ERROR(read_block(*source, base + at, block));
    hash.update(block);
    take(at, block);
  }
  return check(op, shard, part, hash.finish());
}

absl::Status ShardReader::read(const ManifestOperator& op, const ManifestShard& shard,
                               StatePart part, int64_t skip, std::span<std::byte> into) {
  const int64_t wanted = static_cast<int64_t>(into.size());
  CHECK(skip >= 0 && skip + wanted <= manifest_.tensor_bytes(shard, part)) << op.name;
  if (wanted == manifest_.tensor_bytes(shard, part)) return read_all(op, shard, part, into);
  return stream(op, shard, part, [&](int64_t offset, std::span<const std::byte> block) {
    const int64_t begin = std::max(offset, skip);
    const int64_t end = std::min(offset + static_cast<int64_t>(block.size()), skip + wanted);
    if (begin >= end) return;
    std::memcpy(into.data() + (begin - skip), block.data() + (begin - offset),
                static_cast<size_t>(end - begin));
  });
}

absl::Status ShardReader::read_all(const ManifestOperator& op, const ManifestShard& shard,
                                   StatePart part, std::span<std::byte> into) {
  ASSIGN_OR_RETURN(OpenFile* const source, open_file(shard.file));
  const int64_t base = shard.parts[static_cast<size_t>(part)].offset;
  const int64_t bytes = static_cast<int64_t>(into.size());
  FingerprintStream hash;
  for (int64_t at = 0; at < bytes; at += kReadBlockBytes) {
    const std::span<std::byte> block = into.subspan(
        static_cast<size_t>(at), static_cast<size_t>(std::min(kReadBlockBytes, bytes - at)));
    RETURN_IF_ERROR(read_block(*source, base + at, block));
    hash.update(block);
  }
  return check(op, shard, part, hash.finish());
}

}  // namespace evermoe
