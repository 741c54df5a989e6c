// One manifest of the parts of all ranks and, for what they have not saved, of an older checkpoint.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/manifest.h"

namespace evermoe {
namespace {

// What all ranks must agree on. A rank that has nothing of the state rests, and may know of the
// position only where it is.
absl::Status check_agreement(const Manifest& first, const Manifest& part, size_t rank) {
  const auto disagree = [&](const char* what) {
    return Corrupt(absl::StrCat("rank ", rank, " and rank 0 saved different ", what));
  };
  TrainingPosition position = part.position;
  position.validation_loss = first.position.validation_loss;  // only some ranks know it
  const bool rests = part.operators.empty();
  const bool is_same = rests ? position.step == first.position.step &&
                                   position.model_identity == first.position.model_identity
                             : position == first.position;
  if (!is_same) return disagree("training positions");
  if (part.world_size != first.world_size) return disagree("world sizes");
  // Hosts of a job follow one another while its ranks save: its state does not depend on them.
  if (part.job != first.job) return disagree("jobs");
  const bool is_same_term = part.term == first.term && part.term_owner == first.term_owner;
  if (!is_same_term && part.job.empty()) return disagree("terms");
  if (part.state_types != first.state_types || part.compute_type != first.compute_type) {
    return disagree("element types");
  }
  if (part.view != first.view) {
    return Corrupt(absl::StrCat("rank ", rank, " went back in view ", part.view,
                                ", rank 0 in view ", first.view));
  }
  if (part.base != first.base || part.base_manifest != first.base_manifest) {
    return Corrupt(absl::StrCat("rank ", rank, " and rank 0 saved on different bases"));
  }
  if (part.files.size() != 1 || part.files[0].rank != static_cast<int>(rank)) {
    return Corrupt(absl::StrCat("the part of rank ", rank, " describes another rank's file"));
  }
  return absl::OkStatus();
}

absl::Status check_base(const Manifest& part, const Manifest* base) {
  const Step given = base == nullptr ? Step(-1) : base->position.step;
  if (given != part.base) {
    return Corrupt(absl::StrCat("the ranks saved on the base of step ", part.base.value,
                                ", not on that of step ", given.value));
  }
  if (base == nullptr) return absl::OkStatus();
  const auto differs = [&](const char* what) {
    return Corrupt(absl::StrCat("the base of step ", given.value, " has another ", what));
  };
  if (base->position.model_identity != part.position.model_identity) return differs("model");
  if (base->state_types != part.state_types || base->compute_type != part.compute_type) {
    return differs("element type");
  }
  if (given < part.position.step) return absl::OkStatus();
  return Corrupt(absl::StrCat("the base of step ", given.value, " is not older"));
}

// The place of the operator in the list, which stays sorted; a new one if there is none.
ManifestOperator& operator_in(Manifest& merged, const ManifestOperator& op) {
  const auto at =
      std::lower_bound(merged.operators.begin(), merged.operators.end(), op.name,
                       [](const auto& known, const auto& name) { return known.name < name; });
  if (at != merged.operators.end() && at->name == op.name) return *at;
  return *merged.operators.insert(at, ManifestOperator{op.name, op.flat_size, {}});
}

absl::Status add_operators(const Manifest& part, int file, Manifest& merged) {
  for (const ManifestOperator& op : part.operators) {
    ManifestOperator& known = operator_in(merged, op);
    if (known.flat_size != op.flat_size) {
      return Corrupt(absl::StrCat("operator ", op.name, ": saved with ", known.flat_size, " and ",
                                  op.flat_size, " elements"));
    }
    for (ManifestShard shard : op.shards) {
      shard.file = file;
      known.shards.push_back(shard);
    }
  }
  return absl::OkStatus();
}

// Of all ranks, by name.
using Histories = std::map<std::string, ExpertHistory>;

absl::StatusOr<Histories> collect_histories(std::span<const Manifest> parts) {
  Histories result;
  for (const Manifest& part : parts) {
    for (const ExpertHistory& history : part.histories) {
      if (result.emplace(history.name, history).second) continue;
      return Corrupt(absl::StrCat("operator ", history.name, ": two ranks have its history"));
    }
  }
  return result;
}

// What is saved here and what comes from `base` is what the histories say.
absl::Status check_histories(const Histories& histories, const Manifest& saved,
                             const Manifest* base) {
  for (const auto& [name, history] : histories) {
    const bool is_saved = saved.find(name) != nullptr;
    if (history.is_saved && !is_saved) {
      return Corrupt(absl::StrCat("operator ", name, " was to be saved, but no rank holds it"));
    }
    if (!history.is_saved && is_saved) {
      return Corrupt(absl::StrCat("operator ", name, " was not to be saved, but a rank holds it"));
    }
    if (!is_saved && (base == nullptr || base->find(name) == nullptr)) {
      return Corrupt(absl::StrCat(
          "operator ", name, " is not saved, and ",
          base == nullptr ? "there is no base that has it" : "the base has none of this name"));
    }
  }
  if (base == nullptr) return absl::OkStatus();
  for (const ManifestOperator& op : base->operators) {
    if (saved.find(op.name) != nullptr || histories.contains(op.name)) continue;
    return Corrupt(absl::StrCat("operator ", op.name, " is missing: the base has it, no rank saved",
                                " it, and no history says why"));
  }
  return absl::OkStatus();
}

// The base's files as this checkpoint sees them, in their order: only what `wanted` says.
std::map<int, int> add_older_files(const Manifest& base, const std::vector<bool>& wanted,
                                   Manifest& merged) {
  std::map<std::pair<Step, int>, int> order;  // index in the base
  for (size_t i = 0; i < base.files.size(); ++i) {
    const ManifestFile& file = base.files[i];
    const Step step = file.step < Step(0) ? base.position.step : file.step;
    if (wanted[i]) order[{step, file.rank}] = static_cast<int>(i);
  }
  std::map<int, int> index;  // by the index in the base
  for (const auto& [key, i] : order) {
    index[i] = static_cast<int>(merged.files.size());
    merged.files.push_back(base.files[static_cast<size_t>(i)]);
    merged.files.back().step = key.first;
  }
  return index;
}

void add_unsaved(const Histories& histories, const Manifest& base, Manifest& merged) {
  std::vector<bool> wanted(base.files.size());
  for (const auto& [name, history] : histories) {
    if (history.is_saved) continue;
    for (const ManifestShard& shard : base.find(name)->shards) {
      wanted[static_cast<size_t>(shard.file)] = true;
    }
  }
  const std::map<int, int> index = add_older_files(base, wanted, merged);
  for (const auto& [name, history] : histories) {
    if (history.is_saved) continue;
    const ManifestOperator& older = *base.find(name);
    ManifestOperator& op = operator_in(merged, older);
    for (ManifestShard shard : older.shards) {
      shard.file = index.at(shard.file);
      op.shards.push_back(shard);
    }
  }
}

void finish_operators(const Histories& histories, Manifest& merged) {
  for (ManifestOperator& op : merged.operators) {
    std::stable_sort(op.shards.begin(), op.shards.end(),
                     [](const auto& a, const auto& b) { return a.range.begin < b.range.begin; });
    const auto history = histories.find(op.name);
    if (history == histories.end()) continue;
    op.unsaved_tokens = history->second.unsaved_tokens;
    op.lost_tokens = history->second.lost_tokens;
  }
}

}  // namespace

absl::StatusOr<Manifest> merge_manifests(std::span<const Manifest> parts, const Manifest* base) {
  if (parts.empty()) return Corrupt("no rank saved anything");
  RETURN_IF_ERROR(check_base(parts[0], base));
  Manifest merged = parts[0];
  merged.files.clear();
  merged.operators.clear();
  merged.histories.clear();
  merged.base = Step(-1);
  merged.base_manifest = {};
  merged.view = 0;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    RETURN_IF_ERROR(check_agreement(parts[0], parts[rank], rank));
    merged.files.push_back(parts[rank].files[0]);
    if (parts[rank].term > merged.term) {
      merged.term = parts[rank].term;
      merged.term_owner = parts[rank].term_owner;
    }
    RETURN_IF_ERROR(add_operators(parts[rank], static_cast<int>(rank), merged));
  }
  ASSIGN_OR_RETURN(const Histories histories, collect_histories(parts));
  RETURN_IF_ERROR(check_histories(histories, merged, base));
  if (base != nullptr) add_unsaved(histories, *base, merged);
  finish_operators(histories, merged);
  RETURN_IF_ERROR(check_complete(merged));
  return merged;
}

}  // namespace evermoe
