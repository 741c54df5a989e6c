// The text of a manifest (docs/formats/checkpoint.md). The first line holds the fingerprint of all
// that follows it, and the whole is one JSON object.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/format/json_fields.h"
#include "checkpoint/format/manifest.h"

namespace evermoe {
namespace {

using nlohmann::json;

constexpr int kDepthMax = 12;
constexpr char kLineBegin[] = "{\"fingerprint\":\"";
constexpr char kLineEnd[] = "\",\n";
constexpr size_t kLineBytes = sizeof(kLineBegin) - 1 + 32 + sizeof(kLineEnd) - 1;
constexpr int64_t kTextBytesMax = 16 << 20;  // of one text field
constexpr int64_t kTermOwnerBytesMax = 1024;

const char* format_name(ManifestKind kind) {
  return kind == ManifestKind::kCheckpoint ? "evermoe-checkpoint" : "evermoe-checkpoint-part";
}

Fingerprint fingerprint_of(const std::string& text, size_t from) {
  return fingerprint(std::as_bytes(std::span(text).subspan(from)));
}

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

json manifest_json(const Manifest& manifest, ManifestKind kind) {
  json result = {{"format", format_name(kind)},
                 {"version", kManifestVersion},
                 {"position", position_json(manifest.position)},
                 {"world_size", manifest.world_size},
                 {"topology", manifest.topology},
                 {"state_type", to_string(manifest.state_type)},
                 {"compute_type", to_string(manifest.compute_type)},
                 {"files", json::array()},
                 {"operators", json::array()}};
  if (manifest.term > 0) {
    result["term"] = {{"number", manifest.term}, {"owner", manifest.term_owner}};
    if (!manifest.job.empty()) result["term"]["job"] = manifest.job;
  }
  for (const ManifestFile& file : manifest.files) {
    result["files"].push_back({{"name", file.name},
                               {"rank", file.rank},
                               {"bytes", file.bytes},
                               {"header_bytes", file.header_bytes},
                               {"header", to_hex(file.header)}});
  }
  for (const ManifestOperator& op : manifest.operators) {
    json shards = json::array();
    for (const ManifestShard& shard : op.shards) shards.push_back(shard_json(shard));
    result["operators"].push_back(
        {{"name", op.name}, {"flat_size", op.flat_size}, {"shards", std::move(shards)}});
  }
  return result;
}

TrainingPosition read_position(JsonFields fields, absl::Status& status) {
  TrainingPosition position;
  position.step = Step(fields.integer("step", 0, INT64_MAX));
  position.samples = fields.integer("samples", 0, INT64_MAX);
  position.updates_applied = fields.integer("updates_applied", 0, INT64_MAX);
  position.loss_scale = fields.number("loss_scale");
  position.loss_scale_good_steps = fields.integer("loss_scale_good_steps", 0, INT64_MAX);
  const bool evaluated = !fields.is_null("validation_loss");
  position.validation_loss = evaluated ? fields.number("validation_loss") : -1;
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

ManifestFile read_file_entry(JsonFields fields, absl::Status& status) {
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
  if (!fields.is_null("compute")) shard.compute = fields.fingerprint("compute");
  if (fields.status().ok()) {
    for (StatePart part : kStateParts) {
      shard.parts[static_cast<size_t>(part)] = read_tensor(
          JsonFields(fields.object(to_string(part)), absl::StrCat(where, " ", to_string(part))),
          manifest.files[static_cast<size_t>(shard.file)], manifest.tensor_bytes(shard), status);
    }
  }
  status.Update(fields.status());
  return shard;
}

ManifestOperator read_operator(JsonFields fields, const std::string& name, const Manifest& manifest,
                               absl::Status& status) {
  ManifestOperator op;
  op.name = fields.text("name", kOperatorNameBytesMax);
  if (op.name.empty()) fields.problem("has an empty name");
  op.flat_size = fields.integer("flat_size", 1, kFlatSizeMax);
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

absl::Status read_lists(JsonFields& fields, const std::string& name, Manifest& manifest) {
  absl::Status status;
  for (const json& file : fields.array("files")) {
    manifest.files.push_back(
        read_file_entry(JsonFields(file, absl::StrCat(name, ": files")), status));
    RETURN_IF_ERROR(status);
    const size_t count = manifest.files.size();
    if (count > 1 && manifest.files[count - 2].rank >= manifest.files[count - 1].rank) {
      return Corrupt(absl::StrCat(name, ": files are not in the order of ranks"));
    }
  }
  for (const json& op : fields.array("operators")) {
    manifest.operators.push_back(
        read_operator(JsonFields(op, absl::StrCat(name, ": operators")), name, manifest, status));
    RETURN_IF_ERROR(status);
    const size_t count = manifest.operators.size();
    if (count > 1 && manifest.operators[count - 2].name >= manifest.operators[count - 1].name) {
      return Corrupt(absl::StrCat(name, ": operators are not in the order of names"));
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

// The text after the first line, if that line vouches for it.
absl::Status check_first_line(const std::string& text, const std::string& name) {
  if (text.empty()) return Corrupt(absl::StrCat(name, ": is empty"));
  const std::string begin = kLineBegin;
  const std::string end = kLineEnd;
  if (text.size() <= kLineBytes || text.compare(0, begin.size(), begin) != 0 ||
      text.compare(begin.size() + 32, end.size(), end) != 0) {
    return Corrupt(absl::StrCat(name, ": does not begin with its fingerprint"));
  }
  const std::optional<Fingerprint> stated = fingerprint_from_hex(text.substr(begin.size(), 32));
  if (stated != fingerprint_of(text, kLineBytes)) {
    return Corrupt(absl::StrCat(name, ": its fingerprint does not match its content"));
  }
  return absl::OkStatus();
}

absl::Status check_format(JsonFields& fields, ManifestKind kind, const std::string& name) {
  const std::string format = fields.text("format", 64);
  const int64_t version = fields.integer("version", 0, INT64_MAX);
  RETURN_IF_ERROR(fields.status());
  if (format != format_name(kind)) {
    return Corrupt(
        absl::StrCat(name, ": its format is \"", format, "\", not \"", format_name(kind), "\""));
  }
  if (version == kManifestVersion) return absl::OkStatus();
  return Unsupported(absl::StrCat(name, ": has version ", version, ", this program reads version ",
                                  kManifestVersion));
}

}  // namespace

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
  return absl::StrCat(kLineBegin, to_hex(fingerprint_of(body, 0)), kLineEnd, body);
}

absl::StatusOr<Manifest> parse_manifest(const std::string& text, ManifestKind kind,
                                        const std::string& name) {
  RETURN_IF_ERROR(check_first_line(text, name));
  ASSIGN_OR_RETURN(const json document, parse_json_strictly(text, kDepthMax, name));
  JsonFields fields(document, name);
  RETURN_IF_ERROR(check_format(fields, kind, name));
  Manifest manifest;
  absl::Status status;
  manifest.position = read_position(
      JsonFields(fields.object("position"), absl::StrCat(name, ": position")), status);
  RETURN_IF_ERROR(status);
  manifest.world_size = static_cast<int>(fields.integer("world_size", 1, kManifestRanksMax));
  manifest.topology = fields.text("topology", kTextBytesMax);
  read_term(fields, name, manifest, status);
  RETURN_IF_ERROR(status);
  manifest.state_type = read_type(fields, "state_type");
  manifest.compute_type = read_type(fields, "compute_type");
  RETURN_IF_ERROR(fields.status());
  RETURN_IF_ERROR(read_lists(fields, name, manifest));
  if (kind == ManifestKind::kCheckpoint) RETURN_IF_ERROR(annotate(check_complete(manifest), name));
  return manifest;
}

}  // namespace evermoe
