#include "checkpoint/tiers/local_saves.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "checkpoint/format/checkpoint_names.h"

namespace evermoe {
namespace {

// The first that is of one step and origin with `wanted`; nullptr if none is.
const LocalSave* find(std::span<const LocalSave> saves, const LocalSave& wanted) {
  const auto found = std::ranges::find_if(saves, [&](const LocalSave& save) {
    return save.step == wanted.step && save.origin == wanted.origin;
  });
  return found == saves.end() ? nullptr : &*found;
}

// The step that a folder's name says, and whether it is committed.
std::optional<LocalSave> parse_name(const std::string& name) {
  if (const auto step = parse_step_directory(name))
    return LocalSave{.step = *step, .is_committed = true};
  if (const auto step = parse_step_directory(name, kTemporarySuffix))
    return LocalSave{.step = *step};
  return std::nullopt;
}

bool is_before(const LocalSave& a, const LocalSave& b) {
  if (a.step != b.step) return a.step > b.step;
  return a.is_committed && !b.is_committed;
}

}  // namespace

Fingerprint origin_of(const Manifest& part) {
  const std::string text =
      absl::StrCat(part.job, "\n", part.view, "\n", part.world_size, "\n", part.topology, "\n",
                   describe(part.state_types), "\n", to_string(part.compute_type), "\n",
                   part.position.model_identity);
  return fingerprint(std::as_bytes(std::span(text)));
}

std::array<int64_t, kLocalSaveNumbers> to_numbers(const LocalSave& save) {
  return {save.step.value, std::bit_cast<int64_t>(save.origin.high),
          std::bit_cast<int64_t>(save.origin.low), save.term, save.is_committed ? 1 : 0};
}

LocalSave from_numbers(std::span<const int64_t> numbers) {
  CHECK(numbers.size() == kLocalSaveNumbers) << numbers.size();
  return {Step(numbers[0]),
          {std::bit_cast<uint64_t>(numbers[1]), std::bit_cast<uint64_t>(numbers[2])},
          numbers[3],
          numbers[4] != 0};
}

std::string path_of(const std::string& directory, const LocalSave& save) {
  return absl::StrCat(join_path(directory, step_directory_name(save.step)),
                      save.is_committed ? "" : kTemporarySuffix);
}

std::vector<LocalSave> list_local_saves(Files& files, const std::string& directory, int rank) {
  const absl::StatusOr<std::vector<std::string>> names = files.list(directory);
  if (!names.ok()) return {};
  std::vector<LocalSave> found;
  for (const std::string& name : *names) {
    if (const auto save = parse_name(name)) found.push_back(*save);
  }
  std::ranges::sort(found, is_before);
  std::vector<LocalSave> saves;
  for (LocalSave& save : found) {
    if (saves.size() == static_cast<size_t>(kLocalSavesMax)) break;
    const std::string path = join_path(path_of(directory, save), rank_part_name(rank));
    const absl::StatusOr<std::string> text = read_file(files, path, kManifestBytesMax);
    if (!text.ok()) continue;
    const auto part = parse_manifest(*text, ManifestKind::kRankPart, path);
    if (!part.ok() || part->position.step != save.step) continue;
    save.origin = origin_of(*part);
    save.term = part->term;
    saves.push_back(save);
  }
  return saves;
}

std::vector<LocalSave> usable_local_saves(std::span<const std::vector<LocalSave>> told,
                                          int64_t term) {
  std::vector<LocalSave> usable;
  if (told.empty()) return usable;
  for (const LocalSave& candidate : told[0]) {
    if (find(usable, candidate) != nullptr) continue;
    LocalSave all{.step = candidate.step, .origin = candidate.origin};
    const bool all_have = std::ranges::all_of(told, [&](const std::vector<LocalSave>& own) {
      const LocalSave* save = find(own, candidate);
      if (save == nullptr) return false;
      all.is_committed |= save->is_committed;
      all.term = std::max(all.term, save->term);
      return true;
    });
    if (all_have && all.is_committed && all.term >= term) usable.push_back(all);
  }
  std::ranges::sort(usable, is_before);
  return usable;
}

LocalSave own_of(std::span<const LocalSave> own, const LocalSave& chosen) {
  const LocalSave* save = find(own, chosen);
  CHECK(save != nullptr) << "no own save of step " << chosen.step.value;
  return *save;
}

bool is_part_of(const Manifest& part, const Manifest& checkpoint) {
  const auto is_there = [](const ManifestShard& own, const ManifestOperator& whole) {
    return std::ranges::any_of(whole.shards, [&](const ManifestShard& shard) {
      const bool is_same = std::ranges::equal(
          shard.parts, own.parts, {}, &ManifestTensor::fingerprint, &ManifestTensor::fingerprint);
      return shard.range == own.range && is_same;
    });
  };
  return part.state_types == checkpoint.state_types &&
         std::ranges::all_of(part.operators, [&](const ManifestOperator& own) {
           const ManifestOperator* const whole = checkpoint.find(own.name);
           return whole != nullptr && whole->flat_size == own.flat_size &&
                  std::ranges::all_of(own.shards, [&](const ManifestShard& shard) {
                    return is_there(shard, *whole);
                  });
         });
}

bool holds_range(const Manifest& manifest, const std::string& operator_name, int64_t flat_size,
                 FlatRange range) {
  const ManifestOperator* op = manifest.find(operator_name);
  if (op == nullptr || op->flat_size != flat_size) return false;
  return std::ranges::any_of(op->shards, [&](const ManifestShard& shard) {
    return shard.range.begin <= range.begin && range.end <= shard.range.end;
  });
}

}  // namespace evermoe
