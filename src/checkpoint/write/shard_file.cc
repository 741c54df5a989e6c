#include "checkpoint/write/shard_file.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/safetensors.h"

namespace evermoe {
namespace {

absl::Status check_shape(const ShardShape& shard, const PartTypes& types) {
  const std::string& name = shard.operator_name;
  if (name.empty() || static_cast<int64_t>(name.size()) > kOperatorNameBytesMax) {
    return InvalidInput(absl::StrCat("an operator's name has ", name.size(),
                                     " bytes, allowed are 1 to ", kOperatorNameBytesMax));
  }
  const bool inside = shard.range.begin >= 0 && shard.range.begin < shard.range.end &&
                      shard.range.end <= shard.flat_size && shard.flat_size <= kFlatSizeMax;
  const auto is_whole = [&](ElementType type) {
    return may_be_cut_at(type, shard.range.begin) && may_be_cut_at(type, shard.range.end);
  };
  if (inside && std::ranges::all_of(types, is_whole)) return absl::OkStatus();
  if (inside)
    return InvalidInput(absl::StrCat("operator ", name, ": the shard ", shard.range.begin, " to ",
                                     shard.range.end, " has no whole blocks of fp8"));
  return InvalidInput(absl::StrCat("operator ", name, ": the shard ", shard.range.begin, " to ",
                                   shard.range.end, " does not lie in its ", shard.flat_size,
                                   " elements"));
}

// The threads that write one file share this.
class BlockWriter {
 public:
  BlockWriter(WritableFile& file, std::span<const std::byte> staging, StagingProgress& progress,
              int64_t block_bytes)
      : file_(file), staging_(staging), progress_(progress), block_bytes_(block_bytes) {}

  absl::Status run(int threads) {
    const int64_t blocks = (size() + block_bytes_ - 1) / block_bytes_;
    std::vector<std::thread> helpers;
    for (int i = 1; i < std::min<int64_t>(threads, blocks); ++i)
      helpers.emplace_back([this] { work(); });
    work();
    for (std::thread& helper : helpers) helper.join();
    Monitor::Lock lock(monitor_);
    return error_;
  }

 private:
  int64_t size() const { return static_cast<int64_t>(staging_.size()); }

  void work() {
    const absl::Status status = guard([this] { return write_blocks(); });
    if (status.ok()) return;
    next_ = size();  // the others stop after their block
    Monitor::Lock lock(monitor_);
    error_.Update(status);
  }

  absl::Status write_blocks() {
    for (;;) {
      const int64_t begin = next_.fetch_add(block_bytes_);
      if (begin >= size()) return absl::OkStatus();
      const int64_t end = std::min(begin + block_bytes_, size());
      RETURN_IF_ERROR(progress_.wait_for(end));
      RETURN_IF_ERROR(file_.write_at(
          begin, staging_.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))));
    }
  }

  WritableFile& file_;
  const std::span<const std::byte> staging_;
  StagingProgress& progress_;
  const int64_t block_bytes_;
  std::atomic<int64_t> next_{0};
  Monitor monitor_;  // guards what follows
  absl::Status error_;
};

}  // namespace

std::string tensor_name(const std::string& operator_name, StatePart part) {
  return absl::StrCat(operator_name, "/", to_string(part));
}

absl::StatusOr<ShardFileLayout> lay_out_shard_file(std::span<const ShardShape> shards,
                                                   const PartTypes& types) {
  std::vector<SafetensorsTensor> tensors;
  std::map<std::string, std::string> metadata = {{"format", "evermoe-checkpoint"}};
  std::set<std::string> names;
  for (const ShardShape& shard : shards) {
    RETURN_IF_ERROR(check_shape(shard, types));
    if (!names.insert(shard.operator_name).second) {
      return InvalidInput(
          absl::StrCat("operator ", shard.operator_name, ": two shards on one rank"));
    }
    metadata[absl::StrCat(shard.operator_name, "/range")] = absl::StrCat(
        "begin=", shard.range.begin, " end=", shard.range.end, " flat_size=", shard.flat_size);
    for (StatePart part : kStateParts) {
      tensors.push_back({.name = tensor_name(shard.operator_name, part),
                         .dtype = safetensors_name(type_of(types, part)),
                         .shape = {safetensors_elements(type_of(types, part), shard.range.size())},
                         .begin = 0,
                         .end = 0});
    }
  }
  ShardFileLayout layout;
  ASSIGN_OR_RETURN(layout.header, make_safetensors_header(tensors, metadata, kDirectAlignment));
  const int64_t header_bytes = static_cast<int64_t>(layout.header.size());
  layout.file_bytes = header_bytes + (tensors.empty() ? 0 : tensors.back().end);
  for (size_t i = 0; i < tensors.size(); i += kStatePartCount) {
    layout.offsets.push_back({header_bytes + tensors[i].begin, header_bytes + tensors[i + 1].begin,
                              header_bytes + tensors[i + 2].begin});
  }
  return layout;
}

absl::Status write_staged_file(Files& files, const std::string& path,
                               std::span<const std::byte> staging, int64_t file_bytes,
                               StagingProgress& progress, const ShardWriteOptions& options) {
  CHECK(options.block_bytes > 0 && options.block_bytes % kDirectAlignment == 0)
      << options.block_bytes;
  const int64_t padded = static_cast<int64_t>(staging.size());
  CHECK(padded >= file_bytes && padded % kDirectAlignment == 0) << padded;
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                   files.create(path, {.direct = true, .reserve_bytes = padded}));
  RETURN_IF_ERROR(BlockWriter(*file, staging, progress, options.block_bytes).run(options.threads));
  if (padded != file_bytes) RETURN_IF_ERROR(file->truncate(file_bytes));
  RETURN_IF_ERROR(file->sync());
  return file->close();
}

}  // namespace evermoe
