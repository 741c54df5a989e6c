// Reads the tensors of a checkpoint's files in blocks and checks their fingerprints.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/format/manifest.h"
#include "env/files.h"

namespace evermoe {

// Bytes read at a time: large enough for the disk, small enough to be hashed while they are in
// cache.
inline constexpr int64_t kReadBlockBytes = 1 << 20;

// One thread at a time. `manifest` must outlive it.
class ShardReader {
 public:
  // `paths` are those of the manifest's files.
  ShardReader(Files& files, std::vector<std::string> paths, const Manifest& manifest)
      : files_(files), paths_(std::move(paths)), manifest_(manifest) {}

  // Gives every block of the tensor to `take`, in order; `offset` counts bytes from its beginning.
  // After the last one compares the fingerprint: only then the blocks are known to be good.
  // Corrupt names file, operator and part.
  using TakeBlock = std::function<void(int64_t offset, std::span<const std::byte> block)>;
  absl::Status stream(const ManifestOperator& op, const ManifestShard& shard, StatePart part,
                      const TakeBlock& take);

  // The same, with the bytes [skip, skip + into.size()) of the tensor put into `into`.
  absl::Status read(const ManifestOperator& op, const ManifestShard& shard, StatePart part,
                    int64_t skip, std::span<std::byte> into);

  // Open until the next call.
  absl::StatusOr<ReadableFile*> file(int index);
  const std::string& path(int index) const { return paths_[static_cast<size_t>(index)]; }

 private:
  struct OpenFile {
    std::unique_ptr<ReadableFile> file;
    int64_t read_to = 0;     // where the newest read ended
    int64_t fetched_to = 0;  // what the disk was asked for
  };
  absl::StatusOr<OpenFile*> open_file(int index);
  // Reads one block, and asks the disk for what follows it: a load goes through a file in order.
  static absl::Status read_block(OpenFile& source, int64_t offset, std::span<std::byte> into);
  // A whole tensor, without a copy.
  absl::Status read_all(const ManifestOperator& op, const ManifestShard& shard, StatePart part,
                        std::span<std::byte> into);
  absl::Status check(const ManifestOperator& op, const ManifestShard& shard, StatePart part,
                     const Fingerprint& found) const;

  Files& files_;
  const std::vector<std::string> paths_;
  const Manifest& manifest_;
  std::map<int, OpenFile> open_;
  std::vector<std::byte> block_;
};

}  // namespace evermoe
