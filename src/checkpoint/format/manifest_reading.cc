// Reading a manifest (docs/formats/checkpoint.md), whoever wrote it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/format/json_fields.h"
#include "checkpoint/format/manifest.h"

namespace evermoe {
namespace {

using nlohmann::json;

constexpr int kDepthMax = 12;
constexpr int64_t kTextBytesMax = 16 << 20;  // of one text field
constexpr int64_t kTermOwnerBytesMax = 1024;
constexpr int64_t kExpertsMax = 65536;  // of a layer

// What version 1 does not know is not read from it.
struct ManifestVersion {
  ManifestKind kind;
  bool is_partial;
  bool is_typed;
};

std::vector<int64_t> read_windows(JsonFields& fields, const char* key) {
  std::vector<int64_t> windows;
  for (const json& value : fields.array(key)) {
    const bool is_next = value.is_number_integer() && value.get<int64_t>() >= 0 &&
                         (windows.empty() || value.get<int64_t>() > windows.back());
    if (!is_next || std::ssize(windows) >= kQuarantinedWindowsMax) {
      fields.problem(absl::StrCat("\"", key, "\" is no ascending list of at most ",
                                  kQuarantinedWindowsMax, " windows"));
      return {};
    }
    windows.push_back(value.get<int64_t>());
  }
  return windows;
}

// Numbers from 0 to `most`; empty if it is anything else.
std::optional<std::vector<int64_t>> read_numbers(const json& list, int64_t most) {
  if (!list.is_array()) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const json& value : list) {
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > most)
      return std::nullopt;
    numbers.push_back(value.get<int64_t>());
  }
  return numbers;
}

LayerBalance read_balance(JsonFields fields, absl::Status& status) {
  LayerBalance layer;
  const auto wrong = [&](const char* key, const char* what) {
    fields.problem(absl::StrCat("\"", key, "\" ", what));
  };
  layer.loads = read_numbers(fields.array("loads"), INT64_MAX).value_or(std::vector<int64_t>());
  if (layer.loads.empty() || std::ssize(layer.loads) > kExpertsMax)
    wrong("loads", "is no list of loads of experts");
  for (const json& on_lane : fields.array("lanes")) {
    const auto experts = read_numbers(on_lane, kExpertsMax);
    if (!experts || std::ssize(layer.experts_of) >= kManifestRanksMax) {
      wrong("lanes", "is no list of experts by lane");
      break;
    }
    layer.experts_of.emplace_back(experts->begin(), experts->end());
  }
  if (!is_placed_well(layer.experts_of, std::ssize(layer.loads)))
    wrong("lanes", "does not place every expert");
  status.Update(fields.status());
  return layer;
}

ExpertBalance read_balances(JsonFields& fields, absl::Status& status) {
  ExpertBalance balance;
  for (const json& layer : fields.array("experts")) {
    balance.push_back(read_balance(JsonFields(layer, "experts"), status));
    const bool is_another = balance.back().loads.size() != balance.front().loads.size();
    if (is_another) fields.problem("layers have different numbers of \"experts\"");
    if (!status.ok() || is_another) return {};
  }
  return balance;
}

// States before that of the checkpoint.
TrainedOn read_trained_on(JsonFields& fields, Step end, absl::Status& status) {
  TrainedOn all;
  for (const json& one : fields.array("trained_on")) {
    JsonFields change(one, "trained_on");
    const int64_t first = all.empty() ? 0 : all.back().step.value + 1;
    const Step step(change.integer("step", first, end.value - 1));
    const auto lanes = read_numbers(change.array("lanes"), kManifestRanksMax);
    status.Update(change.status());
    if (!lanes || lanes->empty() || std::ranges::count(*lanes, 0) > 0 ||
        all.size() == kTrainedOnMax) {
      fields.problem(absl::StrCat("\"trained_on\" is no list of at most ", kTrainedOnMax,
                                  " steps with lanes of each stage"));
    }
    if (!status.ok() || !fields.status().ok()) return {};
    all.push_back({step, {lanes->begin(), lanes->end()}});
  }
  return all;
}

TrainingPosition read_position(JsonFields fields, ManifestVersion version, absl::Status& status) {
  TrainingPosition position;
  position.step = Step(fields.integer("step", 0, INT64_MAX));
  position.samples = fields.integer("samples", 0, INT64_MAX);
  position.updates_applied = fields.integer("updates_applied", 0, INT64_MAX);
  position.loss_scale = fields.number("loss_scale");
  position.loss_scale_good_steps = fields.integer("loss_scale_good_steps", 0, INT64_MAX);
  const bool evaluated = !fields.is_null("validation_loss");
  position.validation_loss = evaluated ? fields.number("validation_loss") : -1;
  if (version.is_partial && fields.has("experts_saved")) {
    position.experts_saved = fields.integer("experts_saved", 1, kExpertsMax);
    position.lost_under_k = fields.integer("lost_under_k", 0, kHistoryTokensMax);
  }
  if (fields.has("quarantined_windows"))
    position.quarantined_windows = read_windows(fields, "quarantined_windows");
  if (fields.has("trained_on"))
    position.trained_on = read_trained_on(fields, position.step, status);
  if (fields.has("experts")) position.experts = read_balances(fields, status);
  position.model_identity = fields.text("model_identity", kTextBytesMax);
  position.configuration = fields.text("configuration", kTextBytesMax);
  status.Update(fields.status());
  return position;
}

ElementType read_type(JsonFields& fields, const char* key) {
  const std::string name = fields.text(key, 16);
  const std::optional<ElementType> type = element_type_from_string(name);
  if (!type) fields.problem(absl::StrCat("\"", key, "\" is no element type: \"", name, "\""));
  return type.value_or(ElementType::kFp32);
}

// Versions 1 and 2 have one type for all parts, and only those that they know.
void read_types(JsonFields& fields, const std::string& name, ManifestVersion version,
                Manifest& manifest, absl::Status& status) {
  manifest.compute_type = read_type(fields, "compute_type");
  if (!version.is_typed) {
    const ElementType type = read_type(fields, "state_type");
    manifest.state_types = same_types(type);
    if (type != ElementType::kFp32 && type != ElementType::kFp64)
      fields.problem(absl::StrCat("\"state_type\" is ", to_string(type), ", allowed: fp32, fp64"));
    if (manifest.compute_type == ElementType::kFp8)
      fields.problem("\"compute_type\" is fp8, which this version does not have");
    return;
  }
  JsonFields types(fields.object("state_types"), absl::StrCat(name, ": state_types"));
  for (StatePart part : kStateParts)
    manifest.state_types[static_cast<size_t>(part)] = read_type(types, to_string(part));
  const bool is_master_fp8 = manifest.state_types[0] == ElementType::kFp8;
  if (is_master_fp8 && manifest.compute_type != ElementType::kFp8)
    types.problem(
        absl::StrCat("master is fp8, compute weights are ", to_string(manifest.compute_type)));
  status.Update(types.status());
}

// Whether every type may be cut there.
bool may_be_cut_at(const Manifest& manifest, int64_t element) {
  const auto may_be_cut = [&](ElementType type) { return may_be_cut_at(type, element); };
  return std::ranges::all_of(manifest.state_types, may_be_cut) &&
         may_be_cut_at(manifest.compute_type, element);
}

ManifestFile read_file_entry(JsonFields fields, Step step, ManifestVersion version,
                             absl::Status& status) {
  ManifestFile file;
  file.rank = static_cast<int>(fields.integer("rank", 0, kManifestRanksMax - 1));
  file.name = fields.text("name", 64);
  // Never a path: a manifest must not make the reader open what lies elsewhere.
  if (file.name != rank_file_name(file.rank)) {
    fields.problem(absl::StrCat("the file of rank ", file.rank, " is named \"", file.name, "\""));
  }
  file.bytes = fields.integer("bytes", 8, INT64_MAX);
  file.header_bytes = fields.integer("header_bytes", 8, file.bytes);
  file.header = fields.fingerprint("header");
  if (version.is_partial && fields.has("step")) {
    if (version.kind == ManifestKind::kRankPart)
      fields.problem("a part has a file of another step");
    file.step = Step(fields.integer("step", 0, step.value - 1));
  }
  status.Update(fields.status());
  return file;
}

ManifestTensor read_tensor(JsonFields fields, const ManifestFile& file, int64_t bytes,
                           absl::Status& status) {
  ManifestTensor tensor;
  tensor.offset = fields.integer("offset", file.header_bytes, file.bytes);
  tensor.fingerprint = fields.fingerprint("fingerprint");
  if (bytes > file.bytes - tensor.offset) {
    fields.problem(absl::StrCat("lies beyond the end of ", file.name));
  }
  status.Update(fields.status());
  return tensor;
}

ManifestShard read_shard(JsonFields fields, const std::string& where, const Manifest& manifest,
                         int64_t flat_size, absl::Status& status) {
  ManifestShard shard;
  shard.file =
      static_cast<int>(fields.integer("file", 0, static_cast<int64_t>(manifest.files.size()) - 1));
  shard.range.begin = fields.integer("begin", 0, flat_size - 1);
  shard.range.end = fields.integer("end", shard.range.begin + 1, flat_size);
  if (!may_be_cut_at(manifest, shard.range.begin) || !may_be_cut_at(manifest, shard.range.end))
    fields.problem(absl::StrCat("elements ", shard.range.begin, " to ", shard.range.end,
                                " are no whole blocks of fp8"));
  if (!fields.is_null("compute")) shard.compute = fields.fingerprint("compute");
  if (fields.status().ok()) {
    for (StatePart part : kStateParts) {
      shard.parts[static_cast<size_t>(part)] = read_tensor(
          JsonFields(fields.object(to_string(part)), absl::StrCat(where, " ", to_string(part))),
          manifest.files[static_cast<size_t>(shard.file)], manifest.tensor_bytes(shard, part),
          status);
    }
  }
  status.Update(fields.status());
  return shard;
}

// Left out where it is 0.
int64_t read_tokens(JsonFields& fields, const char* key) {
  return fields.has(key) ? fields.integer(key, 0, kHistoryTokensMax) : 0;
}

ManifestOperator read_operator(JsonFields fields, const std::string& name, const Manifest& manifest,
                               ManifestVersion version, absl::Status& status) {
  ManifestOperator op;
  op.name = fields.text("name", kOperatorNameBytesMax);
  if (op.name.empty()) fields.problem("has an empty name");
  op.flat_size = fields.integer("flat_size", 1, kFlatSizeMax);
  if (version.is_partial) {
    op.unsaved_tokens = read_tokens(fields, "unsaved_tokens");
    op.lost_tokens = read_tokens(fields, "lost_tokens");
  }
  const std::string where = absl::StrCat(name, ": operator ", op.name);
  for (const json& shard : fields.array("shards")) {
    op.shards.push_back(
        read_shard(JsonFields(shard, where), where, manifest, op.flat_size, status));
    if (!status.ok()) break;
    if (op.shards.size() > 1 &&
        op.shards.back().range.begin < op.shards[op.shards.size() - 2].range.begin) {
      fields.problem("shards are not in order");
    }
  }
  status.Update(fields.status());
  return op;
}

absl::Status read_files(JsonFields& fields, const std::string& name, ManifestVersion version,
                        Manifest& manifest) {
  absl::Status status;
  for (const json& file : fields.array("files")) {
    manifest.files.push_back(read_file_entry(JsonFields(file, absl::StrCat(name, ": files")),
                                             manifest.position.step, version, status));
    RETURN_IF_ERROR(status);
    const size_t count = manifest.files.size();
    const auto place = [&](size_t i) {
      return std::pair(manifest.files[i].step, manifest.files[i].rank);
    };
    if (count > 1 && place(count - 2) >= place(count - 1)) {
      return Corrupt(absl::StrCat(name, ": files are not in the order of steps and ranks"));
    }
  }
  return fields.status();
}

absl::Status read_operators(JsonFields& fields, const std::string& name, ManifestVersion version,
                            Manifest& manifest) {
  absl::Status status;
  for (const json& op : fields.array("operators")) {
    manifest.operators.push_back(read_operator(JsonFields(op, absl::StrCat(name, ": operators")),
                                               name, manifest, version, status));
    RETURN_IF_ERROR(status);
    const size_t count = manifest.operators.size();
    if (count > 1 && manifest.operators[count - 2].name >= manifest.operators[count - 1].name) {
      return Corrupt(absl::StrCat(name, ": operators are not in the order of names"));
    }
  }
  return fields.status();
}

ExpertHistory read_history(JsonFields fields, absl::Status& status) {
  ExpertHistory history;
  history.name = fields.text("name", kOperatorNameBytesMax);
  if (history.name.empty()) fields.problem("has an empty name");
  history.unsaved_tokens = fields.integer("unsaved_tokens", 0, kHistoryTokensMax);
  history.lost_tokens = fields.integer("lost_tokens", 0, kHistoryTokensMax);
  history.is_saved = fields.boolean("is_saved");
  status.Update(fields.status());
  return history;
}

absl::Status read_base(JsonFields& fields, const std::string& name, Manifest& manifest) {
  if (fields.has("base")) {
    JsonFields base(fields.object("base"), absl::StrCat(name, ": base"));
    manifest.base = Step(base.integer("step", 0, manifest.position.step.value - 1));
    manifest.base_manifest = base.fingerprint("manifest");
    RETURN_IF_ERROR(base.status());
  }
  if (fields.has("view")) manifest.view = fields.integer("view", 1, INT64_MAX);
  if (!fields.has("histories")) return fields.status();
  absl::Status status;
  for (const json& history : fields.array("histories")) {
    manifest.histories.push_back(
        read_history(JsonFields(history, absl::StrCat(name, ": histories")), status));
    RETURN_IF_ERROR(status);
    const size_t count = manifest.histories.size();
    if (count > 1 && manifest.histories[count - 2].name >= manifest.histories[count - 1].name) {
      return Corrupt(absl::StrCat(name, ": histories are not in the order of names"));
    }
  }
  return fields.status();
}

// Only a run has one.
void read_term(JsonFields& fields, const std::string& name, Manifest& manifest,
               absl::Status& status) {
  if (!fields.has("term")) return;
  JsonFields term(fields.object("term"), absl::StrCat(name, ": term"));
  manifest.term = term.integer("number", 1, INT64_MAX);
  manifest.term_owner = term.text("owner", kTermOwnerBytesMax);
  if (term.has("job")) manifest.job = term.text("job", kTermOwnerBytesMax);
  status.Update(term.status());
}

// Whether the first line vouches for the text after it.
absl::Status check_first_line(const std::string& text, const std::string& name) {
  ASSIGN_OR_RETURN(const Fingerprint stated, stated_fingerprint(text, name));
  if (stated == fingerprint(std::as_bytes(std::span(text).subspan(kManifestLineBytes))))
    return absl::OkStatus();
  return Corrupt(absl::StrCat(name, ": its fingerprint does not match its content"));
}

absl::StatusOr<ManifestVersion> read_version(JsonFields& fields, ManifestKind kind,
                                             const std::string& name) {
  const std::string format = fields.text("format", 64);
  const int64_t version = fields.integer("version", 0, INT64_MAX);
  RETURN_IF_ERROR(fields.status());
  if (format != manifest_format(kind)) {
    return Corrupt(absl::StrCat(name, ": its format is \"", format, "\", not \"",
                                manifest_format(kind), "\""));
  }
  if (kManifestVersion <= version && version <= kTypedManifestVersion)
    return ManifestVersion{kind, version != kManifestVersion, version == kTypedManifestVersion};
  return Unsupported(absl::StrCat(name, ": has version ", version, ", this program reads versions ",
                                  kManifestVersion, " to ", kTypedManifestVersion));
}

}  // namespace

absl::StatusOr<Manifest> parse_manifest(const std::string& text, ManifestKind kind,
                                        const std::string& name) {
  RETURN_IF_ERROR(check_first_line(text, name));
  ASSIGN_OR_RETURN(const json document, parse_json_strictly(text, kDepthMax, name));
  JsonFields fields(document, name);
  ASSIGN_OR_RETURN(const ManifestVersion version, read_version(fields, kind, name));
  Manifest manifest;
  absl::Status status;
  manifest.position = read_position(
      JsonFields(fields.object("position"), absl::StrCat(name, ": position")), version, status);
  RETURN_IF_ERROR(status);
  manifest.world_size = static_cast<int>(fields.integer("world_size", 1, kManifestRanksMax));
  manifest.topology = fields.text("topology", kTextBytesMax);
  read_term(fields, name, manifest, status);
  RETURN_IF_ERROR(status);
  read_types(fields, name, version, manifest, status);
  RETURN_IF_ERROR(fields.status());
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(read_files(fields, name, version, manifest));
  RETURN_IF_ERROR(read_operators(fields, name, version, manifest));
  const bool is_part = kind == ManifestKind::kRankPart;
  if (is_part && version.is_partial) RETURN_IF_ERROR(read_base(fields, name, manifest));
  if (!is_part) RETURN_IF_ERROR(annotate(check_complete(manifest), name));
  return manifest;
}

}  // namespace evermoe
