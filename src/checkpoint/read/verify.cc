#include "checkpoint/read/verify.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/casts.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/write/shard_file.h"

namespace evermoe {
namespace {

// What a file's header must say, by the manifest.
std::vector<SafetensorsTensor> expected_tensors(const Manifest& manifest, int file) {
  const int64_t data = manifest.files[static_cast<size_t>(file)].header_bytes;
  std::vector<SafetensorsTensor> expected;
  for (const ManifestOperator& op : manifest.operators) {
    for (const ManifestShard& shard : op.shards) {
      if (shard.file != file) continue;
      for (StatePart part : kStateParts) {
        const int64_t begin = shard.parts[static_cast<size_t>(part)].offset - data;
        expected.push_back(
            {tensor_name(op.name, part),
             safetensors_name(type_of(manifest.state_types, part)),
             {safetensors_elements(type_of(manifest.state_types, part), shard.range.size())},
             begin,
             begin + manifest.tensor_bytes(shard, part)});
      }
    }
  }
  std::sort(expected.begin(), expected.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return expected;
}

// Both in the order of their bytes.
bool has_all(const std::vector<SafetensorsTensor>& tensors,
             const std::vector<SafetensorsTensor>& expected) {
  auto at = tensors.begin();
  for (const SafetensorsTensor& tensor : expected) {
    at = std::find(at, tensors.end(), tensor);
    if (at == tensors.end()) return false;
    ++at;
  }
  return true;
}

absl::Status verify_header(const Manifest& manifest, ShardReader& shards, int index) {
  const std::string path = shards.path(index);
  const ManifestFile& entry = manifest.files[static_cast<size_t>(index)];
  ASSIGN_OR_RETURN(ReadableFile* const file, shards.file(index));
  std::vector<std::byte> bytes(
      static_cast<size_t>(std::min(entry.header_bytes, kSafetensorsHeaderBytesMax + int64_t{8})));
  RETURN_IF_ERROR(file->read_at(0, bytes));
  if (fingerprint(bytes) != entry.header) {
    return Corrupt(absl::StrCat(path, ": the fingerprint of the header does not match"));
  }
  ASSIGN_OR_RETURN(const SafetensorsHeader header,
                   parse_safetensors_header(bytes, file->size(), path));
  const std::vector<SafetensorsTensor> expected = expected_tensors(manifest, index);
  // An older checkpoint's file has more than what is taken from it.
  const bool is_there =
      entry.step < Step(0) ? header.tensors == expected : has_all(header.tensors, expected);
  if (header.header_bytes == entry.header_bytes && is_there) return absl::OkStatus();
  return Corrupt(absl::StrCat(path, ": its tensors are not those of the manifest"));
}

absl::Status verify_shard(const Manifest& manifest, ShardReader& shards, const ManifestOperator& op,
                          const ManifestShard& shard, StatePart part) {
  if (part != StatePart::kMaster || !shard.compute) {
    return shards.stream(op, shard, part, [](int64_t, auto) {});
  }
  FingerprintStream compute;
  std::vector<std::byte> memory;
  RETURN_IF_ERROR(shards.stream(op, shard, part, [&](int64_t, auto block) {
    compute.update(cast_block(manifest, block, memory));
  }));
  if (compute.finish() == *shard.compute) return absl::OkStatus();
  return Corrupt(absl::StrCat(shards.path(shard.file), ": operator ", op.name, ", elements ",
                              shard.range.begin, " to ", shard.range.end,
                              ": the compute weights that the job trained with are not those that "
                              "follow from its master weights"));
}

}  // namespace

std::span<const std::byte> cast_block(const Manifest& manifest, std::span<const std::byte> block,
                                      std::vector<std::byte>& memory) {
  const ElementType master = type_of(manifest.state_types, StatePart::kMaster);
  if (manifest.compute_type == master) return block;
  const int64_t count = static_cast<int64_t>(block.size()) / element_bytes(master);
  memory.resize(static_cast<size_t>(stored_bytes(manifest.compute_type, count)));
  cast_elements(master, block, manifest.compute_type, memory);
  return memory;
}

std::vector<std::string> verify_checkpoint(const Manifest& manifest, ShardReader& shards) {
  std::vector<std::string> problems;
  const auto note = [&](const absl::Status& status) {
    if (!status.ok()) problems.push_back(std::string(status.message()));
  };
  note(check_complete(manifest));
  for (int file = 0; file < static_cast<int>(manifest.files.size()); ++file) {
    note(verify_header(manifest, shards, file));
  }
  for (const ManifestOperator& op : manifest.operators) {
    for (const ManifestShard& shard : op.shards) {
      for (StatePart part : kStateParts) note(verify_shard(manifest, shards, op, shard, part));
    }
  }
  return problems;
}

}  // namespace evermoe
