#include "checkpoint/format/manifest.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/checkpoint_names.h"

namespace evermoe {
namespace {

Step file_step(const Manifest& manifest, const ManifestShard& shard) {
  const Step step = manifest.files[static_cast<size_t>(shard.file)].step;
  return step < Step(0) ? manifest.position.step : step;
}

absl::Status check_cover(const Manifest& manifest, const ManifestOperator& op) {
  int64_t covered = 0;
  const ManifestShard* before = nullptr;
  for (const ManifestShard& shard : op.shards) {
    if (shard.range.begin < covered) {
      return Corrupt(absl::StrCat(
          "operator ", op.name, ": ranks ", manifest.files[before->file].rank, " and ",
          manifest.files[shard.file].rank, " both hold elements from ", shard.range.begin, " on"));
    }
    if (shard.range.begin > covered) {
      return Corrupt(absl::StrCat("operator ", op.name, ": no rank holds elements ", covered,
                                  " to ", shard.range.begin));
    }
    covered = shard.range.end;
    before = &shard;
  }
  if (covered == op.flat_size) return absl::OkStatus();
  return Corrupt(absl::StrCat("operator ", op.name, ": no rank holds elements ", covered, " to ",
                              op.flat_size));
}

// The state of an expert is that of one step: shards of different ones would be nobody's.
absl::Status check_one_step(const Manifest& manifest, const ManifestOperator& op) {
  const Step first = file_step(manifest, op.shards.front());
  for (const ManifestShard& shard : op.shards) {
    const Step step = file_step(manifest, shard);
    if (step == first) continue;
    return Corrupt(absl::StrCat("operator ", op.name, ": elements ", shard.range.begin, " to ",
                                shard.range.end, " are of step ", step.value, ", others of step ",
                                first.value));
  }
  return absl::OkStatus();
}

// Whether `source`, an operator of the checkpoint `older`, has this shard of `manifest` in its own
// folder, with the same bytes at the same place.
bool has_shard(const Manifest& manifest, const ManifestShard& shard, const Manifest& older,
               const ManifestOperator& source) {
  const auto at = std::lower_bound(
      source.shards.begin(), source.shards.end(), shard.range.begin,
      [](const ManifestShard& known, int64_t begin) { return known.range.begin < begin; });
  if (at == source.shards.end()) return false;
  ManifestFile file = manifest.files[static_cast<size_t>(shard.file)];
  file.step = Step(-1);
  ManifestShard found = *at;
  found.file = shard.file;
  return found == shard && older.files[static_cast<size_t>(at->file)] == file;
}

}  // namespace

const ManifestOperator* Manifest::find(const std::string& operator_name) const {
  const auto at = std::lower_bound(
      operators.begin(), operators.end(), operator_name,
      [](const ManifestOperator& op, const std::string& name) { return op.name < name; });
  return at != operators.end() && at->name == operator_name ? &*at : nullptr;
}

Step saved_at(const Manifest& manifest, const ManifestOperator& op) {
  return op.shards.empty() ? manifest.position.step : file_step(manifest, op.shards.front());
}

bool is_mixed(const Manifest& manifest) {
  const auto is_older = [&](const ManifestOperator& op) {
    return saved_at(manifest, op) != manifest.position.step;
  };
  return std::any_of(manifest.operators.begin(), manifest.operators.end(), is_older);
}

std::vector<Step> needed_steps(const Manifest& manifest) {
  std::vector<Step> steps;
  for (const ManifestFile& file : manifest.files) {
    const bool is_known = !steps.empty() && steps.back() == file.step;
    if (file.step >= Step(0) && !is_known) steps.push_back(file.step);
  }
  return steps;
}

std::vector<int64_t> used_bytes(const Manifest& manifest) {
  std::vector<int64_t> used(manifest.files.size());
  for (const ManifestOperator& op : manifest.operators) {
    for (const ManifestShard& shard : op.shards) {
      used[static_cast<size_t>(shard.file)] +=
          state_bytes(manifest.state_types, shard.range.size());
    }
  }
  for (size_t i = 0; i < used.size(); ++i) {
    if (manifest.files[i].step < Step(0)) used[i] = manifest.files[i].bytes;
  }
  return used;
}

absl::Status check_complete(const Manifest& manifest) {
  const auto is_own = [](const ManifestFile& file) { return file.step < Step(0); };
  const auto own = std::count_if(manifest.files.begin(), manifest.files.end(), is_own);
  if (own != manifest.world_size) {
    return Corrupt(absl::StrCat("has files of ", own, " of ", manifest.world_size, " ranks"));
  }
  for (int rank = 0; rank < manifest.world_size; ++rank) {
    const ManifestFile& file = manifest.files[static_cast<size_t>(rank)];
    if (file.rank == rank && is_own(file)) continue;
    return Corrupt(absl::StrCat("has no file of rank ", rank, " of ", manifest.world_size));
  }
  for (const ManifestOperator& op : manifest.operators) {
    RETURN_IF_ERROR(check_cover(manifest, op));
    RETURN_IF_ERROR(check_one_step(manifest, op));
  }
  return absl::OkStatus();
}

absl::Status check_source(const Manifest& manifest, const Manifest& older,
                          const std::string& folder) {
  const Step step = older.position.step;
  for (const ManifestOperator& op : manifest.operators) {
    if (saved_at(manifest, op) != step || step == manifest.position.step) continue;
    const ManifestOperator* source = older.find(op.name);
    for (const ManifestShard& shard : op.shards) {
      if (source != nullptr && has_shard(manifest, shard, older, *source)) continue;
      const ManifestFile& file = manifest.files[static_cast<size_t>(shard.file)];
      return Corrupt(absl::StrCat(folder, "/", file.name, ": operator ", op.name,
                                  " is not the one that the checkpoint of step ",
                                  manifest.position.step.value, " was made with: step ", step.value,
                                  " has been saved again"));
    }
  }
  return absl::OkStatus();
}

}  // namespace evermoe
