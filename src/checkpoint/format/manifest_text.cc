// Writing a manifest (docs/formats/checkpoint.md). The first line holds the fingerprint of all that
// follows it, and the whole is one JSON object.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/json_fields.h"
#include "checkpoint/format/manifest.h"

namespace evermoe {
namespace {

using nlohmann::json;

constexpr char kLineBegin[] = "{\"fingerprint\":\"";
constexpr char kLineEnd[] = "\",\n";
constexpr size_t kLineBytes = sizeof(kLineBegin) - 1 + 32 + sizeof(kLineEnd) - 1;
static_assert(kLineBytes == kManifestLineBytes);

json position_json(const TrainingPosition& position) {
  json result = {{"step", position.step.value},
                 {"samples", position.samples},
                 {"updates_applied", position.updates_applied},
                 {"loss_scale", position.loss_scale},
                 {"loss_scale_good_steps", position.loss_scale_good_steps},
                 {"validation_loss", nullptr},
                 {"model_identity", position.model_identity},
                 {"configuration", position.configuration}};
  if (std::isfinite(position.validation_loss)) result["validation_loss"] = position.validation_loss;
  if (position.experts_saved > 0) {
    result["experts_saved"] = position.experts_saved;
    result["lost_under_k"] = position.lost_under_k;
  }
  if (!position.quarantined_windows.empty())
    result["quarantined_windows"] = position.quarantined_windows;
  for (const TrainedLanes& one : position.trained_on)
    result["trained_on"].push_back({{"step", one.step.value}, {"lanes", one.lanes}});
  for (const LayerBalance& layer : position.experts)
    result["experts"].push_back({{"loads", layer.loads}, {"lanes", layer.experts_of}});
  return result;
}

json shard_json(const ManifestShard& shard) {
  json result = {{"file", shard.file}, {"begin", shard.range.begin}, {"end", shard.range.end}};
  for (StatePart part : kStateParts) {
    const ManifestTensor& tensor = shard.parts[static_cast<size_t>(part)];
    result[to_string(part)] = {{"offset", tensor.offset},
                               {"fingerprint", to_hex(tensor.fingerprint)}};
  }
  result["compute"] = shard.compute ? json(to_hex(*shard.compute)) : json(nullptr);
  return result;
}

json file_json(const ManifestFile& file) {
  json result = {{"name", file.name},
                 {"rank", file.rank},
                 {"bytes", file.bytes},
                 {"header_bytes", file.header_bytes},
                 {"header", to_hex(file.header)}};
  if (file.step >= Step(0)) result["step"] = file.step.value;
  return result;
}

json operator_json(const ManifestOperator& op) {
  json shards = json::array();
  for (const ManifestShard& shard : op.shards) shards.push_back(shard_json(shard));
  json result = {{"name", op.name}, {"flat_size", op.flat_size}, {"shards", std::move(shards)}};
  if (op.unsaved_tokens != 0) result["unsaved_tokens"] = op.unsaved_tokens;
  if (op.lost_tokens != 0) result["lost_tokens"] = op.lost_tokens;
  return result;
}

// Nothing if there is neither.
void add_base(const Manifest& manifest, json& result) {
  if (manifest.base >= Step(0)) {
    result["base"] = {{"step", manifest.base.value}, {"manifest", to_hex(manifest.base_manifest)}};
  }
  if (manifest.view > 0) result["view"] = manifest.view;
  for (const ExpertHistory& history : manifest.histories) {
    result["histories"].push_back({{"name", history.name},
                                   {"unsaved_tokens", history.unsaved_tokens},
                                   {"lost_tokens", history.lost_tokens},
                                   {"is_saved", history.is_saved}});
  }
}

bool has_new_types(const Manifest& manifest) {
  const PartTypes& types = manifest.state_types;
  const bool is_wide = types[0] == ElementType::kFp32 || types[0] == ElementType::kFp64;
  return types != same_types(types[0]) || !is_wide || manifest.compute_type == ElementType::kFp8;
}

json types_json(const PartTypes& types) {
  json result = json::object();
  for (StatePart part : kStateParts) result[to_string(part)] = to_string(type_of(types, part));
  return result;
}

// A manifest that says nothing of other checkpoints or types stays what every program reads.
int64_t version_of(const Manifest& manifest) {
  if (has_new_types(manifest)) return kTypedManifestVersion;
  const auto is_older = [](const ManifestFile& file) { return file.step >= Step(0); };
  const auto has_tokens = [](const ManifestOperator& op) {
    return op.unsaved_tokens != 0 || op.lost_tokens != 0;
  };
  const bool is_partial =
      manifest.position.experts_saved > 0 || manifest.view > 0 || manifest.base >= Step(0) ||
      !manifest.histories.empty() ||
      std::any_of(manifest.files.begin(), manifest.files.end(), is_older) ||
      std::any_of(manifest.operators.begin(), manifest.operators.end(), has_tokens);
  return is_partial ? kPartialManifestVersion : kManifestVersion;
}

json manifest_json(const Manifest& manifest, ManifestKind kind) {
  json result = {{"format", manifest_format(kind)},
                 {"version", version_of(manifest)},
                 {"position", position_json(manifest.position)},
                 {"world_size", manifest.world_size},
                 {"topology", manifest.topology},
                 {"compute_type", to_string(manifest.compute_type)},
                 {"files", json::array()},
                 {"operators", json::array()}};
  if (has_new_types(manifest)) {
    result["state_types"] = types_json(manifest.state_types);
  } else {
    result["state_type"] = to_string(manifest.state_types[0]);
  }
  if (manifest.term > 0) {
    result["term"] = {{"number", manifest.term}, {"owner", manifest.term_owner}};
    if (!manifest.job.empty()) result["term"]["job"] = manifest.job;
  }
  for (const ManifestFile& file : manifest.files) result["files"].push_back(file_json(file));
  for (const ManifestOperator& op : manifest.operators) {
    result["operators"].push_back(operator_json(op));
  }
  add_base(manifest, result);
  return result;
}

}  // namespace

const char* manifest_format(ManifestKind kind) {
  return kind == ManifestKind::kCheckpoint ? "evermoe-checkpoint" : "evermoe-checkpoint-part";
}

absl::StatusOr<std::string> manifest_text(const Manifest& manifest, ManifestKind kind) {
  std::string body;
  try {
    body = manifest_json(manifest, kind).dump();
  } catch (const json::exception& error) {  // the library's way to refuse bytes that are not UTF-8
    return InvalidInput(
        absl::StrCat("a text in the checkpoint's manifest is not UTF-8: ", error.what()));
  }
  return seal_manifest(absl::StrCat(body.substr(1), "\n"));
}

std::string seal_manifest(const std::string& body) {
  return absl::StrCat(kLineBegin, to_hex(fingerprint(std::as_bytes(std::span(body)))), kLineEnd,
                      body);
}

absl::StatusOr<Fingerprint> stated_fingerprint(const std::string& text, const std::string& name) {
  if (text.empty()) return Corrupt(absl::StrCat(name, ": is empty"));
  const std::string begin = kLineBegin;
  const std::string end = kLineEnd;
  const bool has_line = text.size() >= kLineBytes && text.compare(0, begin.size(), begin) == 0 &&
                        text.compare(begin.size() + 32, end.size(), end) == 0;
  const std::optional<Fingerprint> stated =
      has_line ? fingerprint_from_hex(text.substr(begin.size(), 32)) : std::nullopt;
  if (stated) return *stated;
  return Corrupt(absl::StrCat(name, ": does not begin with its fingerprint"));
}

}  // namespace evermoe
