#include "checkpoint/write/publisher.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/read/stored_files.h"

namespace evermoe {

std::string CheckpointPublisher::path(Step step, const char* suffix) const {
  return absl::StrCat(join_path(directory_, step_directory_name(step)), suffix);
}

absl::Status CheckpointPublisher::recover() {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.list(directory_));
  for (const std::string& name : names) {
    const std::string full = join_path(directory_, name);
    const std::optional<Step> replaced = parse_step_directory(name, kReplacedSuffix);
    if (replaced && !files_.exists(path(*replaced))) {
      RETURN_IF_ERROR(files_.rename(full, path(*replaced)));
    } else if (replaced || parse_step_directory(name, kTemporarySuffix) ||
               parse_step_directory(name, kRemovedSuffix) ||
               name == absl::StrCat(kLatestName, kTemporarySuffix)) {
      RETURN_IF_ERROR(remove_tree(files_, full));
    }
  }
  return files_.sync_directory(directory_);
}

void CheckpointPublisher::forget(Step step) {
  if (visible_ == step) visible_.reset();
  known_.erase(step);
}

absl::Status CheckpointPublisher::publish(Step step) {
  RETURN_IF_ERROR(may_publish());
  const std::string temporary = path(step, kTemporarySuffix);
  const bool prepared = files_.is_directory(temporary);
  if (visible_ != step && !prepared && step == published_) return absl::OkStatus();
  // A publisher before this one may have come as far as the renaming. What it replaced has the
  // parts of no rank any more.
  if (!has_parts(temporary) && files_.exists(path(step))) visible_ = step;
  if (visible_ != step) {
    RETURN_IF_ERROR(write_manifest(step));
    RETURN_IF_ERROR(may_publish());
    RETURN_IF_ERROR(make_visible(step));
    visible_ = step;
  }
  RETURN_IF_ERROR(files_.sync_directory(directory_));
  RETURN_IF_ERROR(may_publish());
  RETURN_IF_ERROR(
      replace_symlink(files_, step_directory_name(step), join_path(directory_, kLatestName)));
  RETURN_IF_ERROR(files_.sync_directory(directory_));
  visible_.reset();
  published_ = step;
  RETURN_IF_ERROR(may_publish());
  return annotate(clean_up(step),
                  absl::StrCat("step ", step.value, " is published, but cleaning up failed"));
}

// Of all ranks: some may have saved the step again after it was published.
bool CheckpointPublisher::has_parts(const std::string& folder) const {
  for (int rank = 0; rank < world_size_; ++rank) {
    if (!files_.exists(join_path(folder, rank_part_name(rank)))) return false;
  }
  return true;
}

absl::StatusOr<std::vector<Manifest>> CheckpointPublisher::read_parts(const std::string& folder) {
  std::vector<Manifest> parts;
  for (int rank = 0; rank < world_size_; ++rank) {
    const std::string name = join_path(folder, rank_part_name(rank));
    ASSIGN_OR_RETURN(const std::string text, read_file(files_, name, kManifestBytesMax));
    ASSIGN_OR_RETURN(Manifest part, parse_manifest(text, ManifestKind::kRankPart, name));
    if (part.world_size != world_size_) {
      return Corrupt(absl::StrCat(name, ": saved by a job of ", part.world_size,
                                  " ranks, this one has ", world_size_));
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

// nullopt if the part names none.
absl::StatusOr<std::optional<Manifest>> CheckpointPublisher::read_base(const Manifest& part) {
  if (part.base < Step(0)) return std::nullopt;
  const std::string name = join_path(path(part.base), kManifestName);
  ASSIGN_OR_RETURN(const std::string text, read_file(files_, name, kManifestBytesMax));
  ASSIGN_OR_RETURN(Manifest base, parse_manifest(text, ManifestKind::kCheckpoint, name));
  ASSIGN_OR_RETURN(const Fingerprint stated, stated_fingerprint(text, name));
  if (stated == part.base_manifest) return base;
  return Corrupt(absl::StrCat(name, ": step ", part.base.value, " has been saved again since step ",
                              part.position.step.value, " began to be saved on top of it"));
}

absl::StatusOr<Manifest> CheckpointPublisher::merge_parts(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<Manifest> parts, read_parts(folder));
  ASSIGN_OR_RETURN(const std::optional<Manifest> base, read_base(parts[0]));
  absl::StatusOr<Manifest> merged = merge_manifests(parts, base ? &*base : nullptr);
  if (!merged.ok()) return annotate(merged.status(), folder);
  // Those of older checkpoints, too: what becomes visible can be read.
  for (const absl::Status& problem : file_problems(files_, folder, *merged)) return problem;
  return merged;
}

absl::Status CheckpointPublisher::write_manifest(Step step) {
  const std::string folder = path(step, kTemporarySuffix);
  ASSIGN_OR_RETURN(const Manifest manifest, merge_parts(folder));
  if (manifest.position.step != step) {
    return Corrupt(absl::StrCat(folder, ": holds step ", manifest.position.step.value));
  }
  ASSIGN_OR_RETURN(const std::string text, manifest_text(manifest, ManifestKind::kCheckpoint));
  RETURN_IF_ERROR(write_file_synced(files_, join_path(folder, kManifestName), text));
  RETURN_IF_ERROR(files_.sync_directory(folder));
  known_[step] = {step, manifest.position.validation_loss, true, needed_steps(manifest)};
  return absl::OkStatus();
}

absl::Status CheckpointPublisher::make_visible(Step step) {
  if (!files_.exists(path(step))) return files_.rename(path(step, kTemporarySuffix), path(step));
  // Newer ones, of a future that was given up, may have taken from what was there.
  known_.erase(known_.upper_bound(step), known_.end());
  const absl::Status exchanged = files_.exchange(path(step, kTemporarySuffix), path(step));
  return absl::IsUnimplemented(exchanged) ? replace(step) : exchanged;
}

// Where names cannot be swapped. Between the two renames the former checkpoint goes by its .old
// name, which readers know.
absl::Status CheckpointPublisher::replace(Step step) {
  const std::string old = path(step, kReplacedSuffix);
  RETURN_IF_ERROR(remove_tree(files_, old));
  RETURN_IF_ERROR(files_.rename(path(step), old));
  const absl::Status renamed = files_.rename(path(step, kTemporarySuffix), path(step));
  if (!renamed.ok()) (void)files_.rename(old, path(step));
  return renamed;
}

absl::Status CheckpointPublisher::clean_up(Step step) {
  RETURN_IF_ERROR(remove_tree(files_, path(step, kTemporarySuffix)));
  RETURN_IF_ERROR(remove_tree(files_, path(step, kReplacedSuffix)));
  RETURN_IF_ERROR(remove_strangers(step));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.list(directory_));
  for (const std::string& name : names) {
    // Saves that never became complete: ranks save in the order of steps, so nobody works on them.
    const std::optional<Step> unfinished = parse_step_directory(name, kTemporarySuffix);
    const bool stale = unfinished && *unfinished < step;
    if (stale || parse_step_directory(name, kRemovedSuffix)) {
      RETURN_IF_ERROR(remove_tree(files_, join_path(directory_, name)));
    }
  }
  return apply_retention(step);
}

// The ranks' parts, which the manifest replaces, and files of an earlier attempt with more ranks.
absl::Status CheckpointPublisher::remove_strangers(Step step) {
  std::set<std::string> belong = {kManifestName};
  for (int rank = 0; rank < world_size_; ++rank) belong.insert(rank_file_name(rank));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.list(path(step)));
  for (const std::string& name : names) {
    if (!belong.contains(name)) RETURN_IF_ERROR(remove_tree(files_, join_path(path(step), name)));
  }
  return absl::OkStatus();
}

// A partial one may have lost what it takes from older ones.
absl::StatusOr<bool> CheckpointPublisher::has_its_files(Step step, const Manifest& manifest) {
  if (needed_steps(manifest).empty()) return true;
  const std::vector<absl::Status> problems = file_problems(files_, path(step), manifest);
  for (const absl::Status& problem : problems) {
    if (!absl::IsDataLoss(problem) && !absl::IsNotFound(problem)) return problem;
  }
  return problems.empty();
}

absl::StatusOr<RetainedCheckpoint> CheckpointPublisher::retained(Step step) {
  const auto known = known_.find(step);
  if (known != known_.end()) return known->second;
  const std::string name = join_path(path(step), kManifestName);
  const absl::StatusOr<std::string> text = read_file(files_, name, kManifestBytesMax);
  const absl::StatusOr<Manifest> manifest =
      text.ok() ? parse_manifest(*text, ManifestKind::kCheckpoint, name) : text.status();
  RetainedCheckpoint result{step, -1, true};
  if (manifest.ok()) {
    result.validation_loss = manifest->position.validation_loss;
    result.needs = needed_steps(*manifest);
    ASSIGN_OR_RETURN(result.readable, has_its_files(step, *manifest));
  } else if (absl::IsDataLoss(manifest.status()) || absl::IsNotFound(manifest.status())) {
    result.readable = false;
  } else if (!absl::IsUnimplemented(manifest.status())) {
    // Neither a disk that hiccups nor a newer program's format is a reason to delete.
    return manifest.status();
  }
  known_[step] = result;
  return result;
}

// The published ones, and as if they were: partial saves on their way, which need their bases.
absl::StatusOr<std::vector<RetainedCheckpoint>> CheckpointPublisher::all_retained(Step step) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.list(directory_));
  std::vector<RetainedCheckpoint> checkpoints;
  for (const std::string& name : names) {
    const std::optional<Step> found = parse_step_directory(name);
    if (!found) continue;
    ASSIGN_OR_RETURN(const RetainedCheckpoint checkpoint, retained(*found));
    checkpoints.push_back(checkpoint);
  }
  const std::map<Step, Step> bases = bases_ ? bases_() : std::map<Step, Step>();
  for (const auto& [unpublished, base] : bases) {
    if (unpublished <= step || !files_.exists(path(base))) continue;
    ASSIGN_OR_RETURN(RetainedCheckpoint will_be, retained(base));
    will_be.needs.push_back(base);
    checkpoints.push_back({unpublished, -1, true, std::move(will_be.needs)});
  }
  return checkpoints;
}

absl::Status CheckpointPublisher::apply_retention(Step step) {
  ASSIGN_OR_RETURN(const std::vector<RetainedCheckpoint> checkpoints, all_retained(step));
  for (const CheckpointRemoval& removal : checkpoints_to_remove(rules_, checkpoints, step)) {
    log_info(absl::StrCat("removing ", path(removal.step), ": ", removal.reason));
    // Under another name first, so that a half-removed checkpoint is never taken for one.
    const std::string doomed = path(removal.step, kRemovedSuffix);
    RETURN_IF_ERROR(files_.rename(path(removal.step), doomed));
    RETURN_IF_ERROR(remove_tree(files_, doomed));
    known_.erase(removal.step);
    std::erase_if(known_, [&](const auto& known) {
      const std::vector<Step>& needs = known.second.needs;
      return std::find(needs.begin(), needs.end(), removal.step) != needs.end();
    });
  }
  return absl::OkStatus();
}

}  // namespace evermoe
