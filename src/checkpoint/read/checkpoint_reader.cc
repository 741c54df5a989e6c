#include "checkpoint/read/checkpoint_reader.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "checkpoint/format/casts.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/read/checkpoint_directory.h"
#include "checkpoint/read/shard_reader.h"
#include "checkpoint/read/state_digest.h"
#include "checkpoint/read/stored_files.h"
#include "checkpoint/read/verify.h"

namespace evermoe {
namespace {

class Reader : public CheckpointReader {
 public:
  Reader(Files& files, std::string path, Manifest manifest)
      : path_(std::move(path)),
        manifest_(std::move(manifest)),
        shards_(files, file_paths(files, path_, manifest_), manifest_) {}

  const std::string& path() const override { return path_; }
  const Manifest& manifest() const override { return manifest_; }
  const TrainingPosition& position() const override { return manifest_.position; }

  absl::Status read(const std::string& operator_name, StatePart part, FlatRange range,
                    std::span<std::byte> into) override {
    const ManifestOperator* op = manifest_.find(operator_name);
    if (op == nullptr) return NotFound(absl::StrCat(path_, ": has no operator ", operator_name));
    if (range.begin < 0 || range.begin > range.end || range.end > op->flat_size) {
      return InvalidInput(absl::StrCat(path_, ": operator ", operator_name, " has ", op->flat_size,
                                       " elements, asked for ", range.begin, " to ", range.end));
    }
    const ElementType type = type_of(manifest_.state_types, part);
    CHECK(static_cast<int64_t>(into.size()) == stored_bytes(type, range.size())) << operator_name;
    for (const ManifestShard& shard : op->shards) {
      const int64_t begin = std::max(range.begin, shard.range.begin);
      const int64_t end = std::min(range.end, shard.range.end);
      if (begin >= end) continue;
      const auto bytes = [type](int64_t elements) {
        return static_cast<size_t>(stored_bytes(type, elements));
      };
      RETURN_IF_ERROR(shards_.read(*op, shard, part, stored_bytes(type, begin - shard.range.begin),
                                   into.subspan(bytes(begin - range.begin), bytes(end - begin))));
    }
    return absl::OkStatus();
  }

  std::vector<std::string> verify() override { return verify_checkpoint(manifest_, shards_); }

  absl::StatusOr<Fingerprint> digest() override {
    StateDigest digest;
    std::vector<std::byte> cast;
    for (const ManifestOperator& op : manifest_.operators) {
      digest.begin_operator(op.name, op.flat_size);
      for (StatePart part : kStateParts) {
        RETURN_IF_ERROR(stream(op, part, [&](int64_t, auto block) { digest.update(block); }));
      }
      RETURN_IF_ERROR(stream(op, StatePart::kMaster, [&](int64_t, auto block) {
        digest.update(cast_block(manifest_, block, cast));
      }));
    }
    return digest.finish(manifest_.position);
  }

 private:
  absl::Status stream(const ManifestOperator& op, StatePart part,
                      const ShardReader::TakeBlock& take) {
    for (const ManifestShard& shard : op.shards)
      RETURN_IF_ERROR(shards_.stream(op, shard, part, take));
    return absl::OkStatus();
  }

  const std::string path_;
  const Manifest manifest_;
  ShardReader shards_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::open(Files& files,
                                                                         const std::string& path) {
  const std::vector<std::string> candidates = candidate_checkpoints(files, path);
  if (candidates.empty()) return NotFound(absl::StrCat(path, ": holds no checkpoint"));
  const std::string& chosen = candidates.front();
  const std::string manifest_path = join_path(chosen, kManifestName);
  ASSIGN_OR_RETURN(const std::string text, read_file(files, manifest_path, kManifestBytesMax));
  ASSIGN_OR_RETURN(Manifest manifest,
                   parse_manifest(text, ManifestKind::kCheckpoint, manifest_path));
  for (const absl::Status& problem : file_problems(files, chosen, manifest)) return problem;
  return std::make_unique<Reader>(files, chosen, std::move(manifest));
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::open_part(
    Files& files, const std::string& folder, int rank) {
  const std::string name = join_path(folder, rank_part_name(rank));
  ASSIGN_OR_RETURN(const std::string text, read_file(files, name, kManifestBytesMax));
  ASSIGN_OR_RETURN(Manifest part, parse_manifest(text, ManifestKind::kRankPart, name));
  if (!needed_steps(part).empty() || part.base >= Step(0))
    return Corrupt(absl::StrCat(name, ": is a part of a partial checkpoint"));
  for (const absl::Status& problem : file_problems(files, folder, part)) return problem;
  return std::make_unique<Reader>(files, folder, std::move(part));
}

}  // namespace evermoe
