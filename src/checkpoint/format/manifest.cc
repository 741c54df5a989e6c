#include "checkpoint/format/manifest.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/checkpoint_names.h"

namespace evermoe {
namespace {

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

// What all ranks must agree on.
absl::Status check_agreement(const Manifest& first, const Manifest& part, size_t rank) {
  const auto disagree = [&](const char* what) {
    return Corrupt(absl::StrCat("rank ", rank, " and rank 0 saved different ", what));
  };
  TrainingPosition position = part.position;
  position.validation_loss = first.position.validation_loss;  // only some ranks know it
  if (position != first.position) return disagree("training positions");
  if (part.world_size != first.world_size) return disagree("world sizes");
  // Hosts of a job follow one another while its ranks save: its state does not depend on them.
  if (part.job != first.job) return disagree("jobs");
  const bool is_same_term = part.term == first.term && part.term_owner == first.term_owner;
  if (!is_same_term && part.job.empty()) return disagree("terms");
  if (part.state_type != first.state_type || part.compute_type != first.compute_type) {
    return disagree("element types");
  }
  if (part.files.size() != 1 || part.files[0].rank != static_cast<int>(rank)) {
    return Corrupt(absl::StrCat("the part of rank ", rank, " describes another rank's file"));
  }
  return absl::OkStatus();
}

absl::Status add_operators(const Manifest& part, int file, Manifest& merged) {
  for (const ManifestOperator& op : part.operators) {
    auto at =
        std::lower_bound(merged.operators.begin(), merged.operators.end(), op.name,
                         [](const auto& known, const auto& name) { return known.name < name; });
    if (at == merged.operators.end() || at->name != op.name) {
      at = merged.operators.insert(at, ManifestOperator{op.name, op.flat_size, {}});
    }
    if (at->flat_size != op.flat_size) {
      return Corrupt(absl::StrCat("operator ", op.name, ": saved with ", at->flat_size, " and ",
                                  op.flat_size, " elements"));
    }
    for (ManifestShard shard : op.shards) {
      shard.file = file;
      at->shards.push_back(shard);
    }
  }
  return absl::OkStatus();
}

}  // namespace

const ManifestOperator* Manifest::find(const std::string& operator_name) const {
  const auto at = std::lower_bound(
      operators.begin(), operators.end(), operator_name,
      [](const ManifestOperator& op, const std::string& name) { return op.name < name; });
  return at != operators.end() && at->name == operator_name ? &*at : nullptr;
}

absl::Status check_complete(const Manifest& manifest) {
  if (static_cast<int>(manifest.files.size()) != manifest.world_size) {
    return Corrupt(absl::StrCat("has files of ", manifest.files.size(), " of ", manifest.world_size,
                                " ranks"));
  }
  for (const ManifestOperator& op : manifest.operators) RETURN_IF_ERROR(check_cover(manifest, op));
  return absl::OkStatus();
}

absl::StatusOr<Manifest> merge_manifests(std::span<const Manifest> parts) {
  if (parts.empty()) return Corrupt("no rank saved anything");
  Manifest merged = parts[0];
  merged.files.clear();
  merged.operators.clear();
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    RETURN_IF_ERROR(check_agreement(parts[0], parts[rank], rank));
    merged.files.push_back(parts[rank].files[0]);
    if (parts[rank].term > merged.term) {
      merged.term = parts[rank].term;
      merged.term_owner = parts[rank].term_owner;
    }
    RETURN_IF_ERROR(add_operators(parts[rank], static_cast<int>(rank), merged));
  }
  for (ManifestOperator& op : merged.operators) {
    std::stable_sort(op.shards.begin(), op.shards.end(),
                     [](const auto& a, const auto& b) { return a.range.begin < b.range.begin; });
  }
  RETURN_IF_ERROR(check_complete(merged));
  return merged;
}

}  // namespace evermoe
