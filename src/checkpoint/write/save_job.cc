#include "checkpoint/write/save_job.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/format/manifest.h"

namespace evermoe {
namespace {

// Of one shard, as soon as its bytes are there.
absl::StatusOr<ManifestShard> describe_shard(SaveJob& job, size_t index, const PartTypes& types) {
  ManifestShard shard{.file = 0, .range = job.shards[index].range, .parts = {}, .compute = {}};
  for (size_t part = 0; part < kStatePartCount; ++part) {
    const int64_t offset = job.layout.offsets[index][part];
    const int64_t bytes = stored_bytes(types[part], shard.range.size());
    RETURN_IF_ERROR(job.progress.wait_for(offset + bytes));
    const std::span<const std::byte> content =
        job.staging.subspan(static_cast<size_t>(offset), static_cast<size_t>(bytes));
    shard.parts[part] = {offset, fingerprint(content)};
  }
  shard.compute = job.compute[index];
  return shard;
}

// This rank's part of the manifest.
absl::StatusOr<Manifest> describe(const SaverOptions& options, const Fingerprint& base_manifest,
                                  SaveJob& job) {
  Manifest part;
  part.base = job.partial.base;
  part.base_manifest = base_manifest;
  part.view = job.partial.view;
  part.histories = job.partial.histories;
  part.position = job.position;
  part.world_size = options.world_size;
  part.topology = options.topology;
  if (options.term) {
    const FolderTerm term = options.term();
    part.term = term.number;
    part.term_owner = term.owner;
    part.job = term.job;
  }
  part.state_types = options.state_types;
  part.compute_type = options.compute_type;
  const std::string& header = job.layout.header;
  part.files.push_back({rank_file_name(options.rank), options.rank, job.layout.file_bytes,
                        static_cast<int64_t>(header.size()),
                        fingerprint(std::as_bytes(std::span(header)))});
  for (size_t i = 0; i < job.shards.size(); ++i) {
    ASSIGN_OR_RETURN(const ManifestShard shard, describe_shard(job, i, options.state_types));
    part.operators.push_back({job.shards[i].operator_name, job.shards[i].flat_size, {shard}});
  }
  std::sort(part.operators.begin(), part.operators.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return part;
}

// Writes the rank's file and takes the fingerprints beside it: the writing waits for the disk most
// of the time.
absl::StatusOr<Manifest> write_and_describe(Files& files, const SaverOptions& options,
                                            const Fingerprint& base_manifest, SaveJob& job,
                                            const std::string& path) {
  absl::StatusOr<Manifest> part = Internal("not described");
  absl::Status thrown;
  std::thread describing([&] {
    thrown = guard([&] {
      part = describe(options, base_manifest, job);
      return absl::OkStatus();
    });
  });
  const absl::Status written =
      write_staged_file(files, path, job.staging, job.layout.file_bytes, job.progress,
                        {options.block_bytes, options.write_threads});
  describing.join();
  RETURN_IF_ERROR(written);
  RETURN_IF_ERROR(thrown);
  return part;
}

void copy_shard(const ShardSource& shard, size_t index, const PartTypes& types, SaveJob& job) {
  if (!job.behind.empty()) fault_point("save/copying");
  if (shard.compute_fingerprint) job.compute[index] = shard.compute_fingerprint();
  for (const StatePart part : kStateParts) {
    const int64_t bytes = stored_bytes(type_of(types, part), shard.range.size());
    const int64_t offset = job.layout.offsets[index][static_cast<size_t>(part)];
    shard.copy(part, job.staging.subspan(static_cast<size_t>(offset), static_cast<size_t>(bytes)));
    job.progress.advance(offset + bytes);
  }
}

// What the manifest of the base says of itself now. No save of the base's step can begin while this
// rank writes, so it is what the histories were made with.
absl::StatusOr<Fingerprint> find_base(Files& files, const SaverOptions& options, Step base) {
  if (base < Step(0)) return Fingerprint{};
  const std::string path =
      join_path(join_path(options.directory, step_directory_name(base)), kManifestName);
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.open(path));
  std::string line(static_cast<size_t>(std::min(kManifestLineBytes, file->size())), '\0');
  RETURN_IF_ERROR(file->read_at(0, std::as_writable_bytes(std::span(line))));
  return stated_fingerprint(line, path);
}

absl::Status write_files(Files& files, const SaverOptions& options, SaveJob& job,
                         const std::string& folder, const std::string& path) {
  const std::string part_path = join_path(folder, rank_part_name(options.rank));
  if (options.may_write) RETURN_IF_ERROR(options.may_write());
  ASSIGN_OR_RETURN(const Fingerprint base, find_base(files, options, job.partial.base));
  RETURN_IF_ERROR(files.create_directories(folder));
  RETURN_IF_ERROR(remove_tree(files, part_path));  // of an earlier attempt
  ASSIGN_OR_RETURN(const Manifest part, write_and_describe(files, options, base, job, path));
  ASSIGN_OR_RETURN(const std::string text, manifest_text(part, ManifestKind::kRankPart));
  RETURN_IF_ERROR(write_file_synced(files, part_path, text));
  return files.sync_directory(folder);
}

absl::Status check_history(const ExpertHistory& history, Step base) {
  const auto refuse = [&](const char* what) {
    return InvalidInput(absl::StrCat("the history of operator \"", history.name, "\" ", what));
  };
  if (history.name.empty() || static_cast<int64_t>(history.name.size()) > kOperatorNameBytesMax) {
    return refuse("has a name that is empty or too long");
  }
  for (int64_t tokens : {history.unsaved_tokens, history.lost_tokens}) {
    if (tokens < 0 || tokens > kHistoryTokensMax)
      return refuse("has a number of tokens out of range");
  }
  if (history.is_saved || base >= Step(0)) return absl::OkStatus();
  return refuse("says that it is not saved, and no base has it");
}

// Puts the histories in order.
absl::Status prepare_partial(Step step, PartialSave& partial) {
  if (partial.base >= step) {
    return InvalidInput(absl::StrCat("a checkpoint of step ", step.value,
                                     " cannot build on that of step ", partial.base.value));
  }
  const auto name_of = [](const ExpertHistory& history) -> const std::string& {
    return history.name;
  };
  std::ranges::sort(partial.histories, {}, name_of);
  const auto twice = std::ranges::adjacent_find(partial.histories, {}, name_of);
  if (twice != partial.histories.end()) {
    return InvalidInput(absl::StrCat("operator ", twice->name, " has two histories"));
  }
  for (const ExpertHistory& history : partial.histories) {
    RETURN_IF_ERROR(check_history(history, partial.base));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<SaveJob>> make_save_job(const SaverOptions& options,
                                                       const TrainingPosition& position,
                                                       std::vector<ShardShape> shards,
                                                       PartialSave partial) {
  if (position.step < Step(0) || !std::isfinite(position.loss_scale)) {
    return InvalidInput(absl::StrCat("a checkpoint of step ", position.step.value,
                                     " with loss scale ", position.loss_scale, " cannot be saved"));
  }
  RETURN_IF_ERROR(prepare_partial(position.step, partial));
  auto job = std::make_shared<SaveJob>();
  job->position = position;
  job->partial = std::move(partial);
  job->compute.resize(shards.size());
  job->shards = std::move(shards);
  ASSIGN_OR_RETURN(job->layout, lay_out_shard_file(job->shards, options.state_types));
  return job;
}

absl::Status copy_shards(std::span<const ShardSource> shards, const PartTypes& types,
                         SaveJob& job) {
  const absl::Status copied = guard([&] {
    for (size_t i = 0; i < shards.size(); ++i) copy_shard(shards[i], i, types, job);
    const size_t tail = job.staging.size() - static_cast<size_t>(job.layout.file_bytes);
    std::memset(job.staging.last(tail).data(), 0, tail);
    job.progress.advance(static_cast<int64_t>(job.staging.size()));
    return absl::OkStatus();
  });
  if (!copied.ok()) job.progress.fail(copied);
  return copied;
}

int64_t end_of_shard(const SaveJob& job, const std::string& operator_name, const PartTypes& types) {
  for (size_t i = 0; i < job.shards.size(); ++i) {
    if (job.shards[i].operator_name != operator_name) continue;
    const int64_t bytes = stored_bytes(types[kStatePartCount - 1], job.shards[i].range.size());
    return job.layout.offsets[i][kStatePartCount - 1] + bytes;
  }
  return 0;
}

absl::Status write_save_job(Files& files, const SaverOptions& options, SaveJob& job) {
  const std::string folder = absl::StrCat(
      join_path(options.directory, step_directory_name(job.position.step)), kTemporarySuffix);
  const std::string path = join_path(folder, rank_file_name(options.rank));
  const absl::Status written = write_files(files, options, job, folder, path);
  if (!written.ok()) (void)files.remove_file(path);
  return written;
}

}  // namespace evermoe
