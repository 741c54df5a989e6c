#include "checkpoint/object_store/stored_checkpoints.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/log.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/read/checkpoint_reader.h"

namespace evermoe {
namespace {

constexpr char kTerms[] = "terms/";
constexpr char kManifestPrefix[] = "manifest-";
constexpr char kManifestSuffix[] = ".json";
constexpr char kFetchedSuffix[] = ".fetched";
constexpr size_t kTermDigits = 10;
constexpr size_t kOwnerDigits = 16;
constexpr int64_t kFetchedBytesAtOnce = 8 << 20;

// Ten digits, a point and the owner's fingerprint: they sort as their numbers do.
bool is_term(const std::string& text) {
  if (text.size() != kTermDigits + 1 + kOwnerDigits || text[kTermDigits] != '.') return false;
  return std::ranges::all_of(text.substr(0, kTermDigits), absl::ascii_isdigit) &&
         std::ranges::all_of(text.substr(kTermDigits + 1), absl::ascii_isxdigit);
}

// "step-00000060" and the rest.
std::optional<std::pair<Step, std::string>> parse_stored_name(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const auto step = parse_step_directory(name.substr(0, slash));
  if (!step) return std::nullopt;
  return std::pair(*step, name.substr(slash + 1));
}

// Its term.
std::optional<std::string> parse_manifest_name(const std::string& name) {
  if (!absl::StartsWith(name, kManifestPrefix) || !absl::EndsWith(name, kManifestSuffix))
    return std::nullopt;
  const size_t begin = sizeof(kManifestPrefix) - 1;
  std::string term = name.substr(begin, name.size() - begin - sizeof(kManifestSuffix) + 1);
  if (!is_term(term)) return std::nullopt;
  return term;
}

// Empty if none has been taken.
absl::StatusOr<std::string> highest_term(ObjectStore& store) {
  ASSIGN_OR_RETURN(const std::vector<StoredObject> objects, store.list(kTerms));
  std::string highest;
  for (const StoredObject& object : objects) {
    const std::string term = object.name.substr(sizeof(kTerms) - 1);
    if (is_term(term)) highest = std::max(highest, term);
  }
  return highest;
}

struct ReadManifest {
  std::string text;
  Manifest manifest;
};

absl::StatusOr<ReadManifest> read_manifest(Files& files, const std::string& folder) {
  const std::string path = join_path(folder, kManifestName);
  ASSIGN_OR_RETURN(std::string text, read_file(files, path, kManifestBytesMax));
  ASSIGN_OR_RETURN(Manifest manifest, parse_manifest(text, ManifestKind::kCheckpoint, path));
  if (!needed_steps(manifest).empty())
    return Unsupported(path + ": a partial checkpoint cannot be put into an object store");
  return ReadManifest{std::move(text), std::move(manifest)};
}

// True: with as many bytes.
absl::StatusOr<bool> is_there(ObjectStore& store, const std::string& name, int64_t bytes) {
  const absl::StatusOr<int64_t> there = store.size(name);
  if (there.ok()) return *there == bytes;
  if (absl::IsNotFound(there.status())) return false;
  return there.status();
}

absl::Status put_checked(Files& files, ObjectStore& store, const std::string& path,
                         const std::string& name, int64_t bytes) {
  ASSIGN_OR_RETURN(const auto file, files.open(path));
  if (file->size() != bytes)
    return Corrupt(absl::StrCat(path, ": has ", file->size(), " bytes, the manifest says ", bytes));
  return store.put_file(name, *file);
}

absl::Status fetch_file(Files& files, ObjectStore& store, const std::string& name, int64_t bytes,
                        const std::string& path) {
  ASSIGN_OR_RETURN(const int64_t there, store.size(name));
  if (there != bytes) {
    return Corrupt(
        absl::StrCat(store.url(), "/", name, ": has ", there, " bytes, the manifest says ", bytes));
  }
  ASSIGN_OR_RETURN(const auto file, files.create(path, {.reserve_bytes = bytes}));
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(bytes, kFetchedBytesAtOnce)));
  for (int64_t at = 0; at < bytes; at += kFetchedBytesAtOnce) {
    const auto block =
        std::span(buffer).first(static_cast<size_t>(std::min(kFetchedBytesAtOnce, bytes - at)));
    RETURN_IF_ERROR(store.read(name, at, block));
    RETURN_IF_ERROR(file->write_at(at, block));
  }
  RETURN_IF_ERROR(file->truncate(bytes));
  RETURN_IF_ERROR(file->sync());
  return file->close();
}

absl::Status verify(Files& files, const std::string& folder, const std::string& origin) {
  ASSIGN_OR_RETURN(const auto reader, CheckpointReader::open(files, folder));
  const std::vector<std::string> problems = reader->verify();
  if (problems.empty()) return absl::OkStatus();
  return Corrupt(absl::StrCat(origin, ": ", problems[0]));
}

// A folder that is there is given up, under a name under which no reader takes it for a checkpoint.
absl::Status replace_folder(Files& files, const std::string& from, const std::string& path) {
  const std::string doomed = absl::StrCat(path, kRemovedSuffix);
  RETURN_IF_ERROR(remove_tree(files, doomed));
  if (files.exists(path)) RETURN_IF_ERROR(files.rename(path, doomed));
  RETURN_IF_ERROR(files.rename(from, path));
  RETURN_IF_ERROR(files.sync_directory(parent_directory(path)));
  return remove_tree(files, doomed);
}

// All of it to `folder`, which is made anew.
absl::Status fetch_files(Files& files, ObjectStore& store, const StoredCheckpoint& checkpoint,
                         const std::string& folder) {
  const std::string origin = absl::StrCat(store.url(), "/", checkpoint.manifest);
  ASSIGN_OR_RETURN(const std::string text,
                   read_object(store, checkpoint.manifest, kManifestBytesMax));
  ASSIGN_OR_RETURN(const Manifest manifest,
                   parse_manifest(text, ManifestKind::kCheckpoint, origin));
  if (manifest.position.step != checkpoint.step || !needed_steps(manifest).empty())
    return Corrupt(origin + ": is of another step, or of several");
  RETURN_IF_ERROR(remove_tree(files, folder));
  RETURN_IF_ERROR(files.create_directories(folder));
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    RETURN_IF_ERROR(fetch_file(files, store, stored_file_name(manifest, i), manifest.files[i].bytes,
                               join_path(folder, manifest.files[i].name)));
  }
  RETURN_IF_ERROR(write_file_synced(files, join_path(folder, kManifestName), text));
  RETURN_IF_ERROR(files.sync_directory(folder));
  return verify(files, folder, origin);
}

}  // namespace

std::string stored_file_name(const Manifest& manifest, size_t file) {
  const ManifestFile& own = manifest.files[file];
  CHECK(own.step < Step(0)) << own.name << " is not of this checkpoint";
  FingerprintStream content;
  const auto add = [&](const Fingerprint& part) {
    const std::string hex = to_hex(part);
    content.update(std::as_bytes(std::span(hex)));
  };
  add(own.header);
  for (const ManifestOperator& op : manifest.operators) {
    for (const ManifestShard& shard : op.shards) {
      if (shard.file != static_cast<int>(file)) continue;
      for (const ManifestTensor& part : shard.parts) add(part.fingerprint);
    }
  }
  return absl::StrFormat("%s/rank-%04d.%s.safetensors", step_directory_name(manifest.position.step),
                         own.rank, to_hex(content.finish()));
}

std::vector<StoredCheckpoint> stored_checkpoints(const std::vector<StoredObject>& objects) {
  std::map<Step, StoredCheckpoint> newest;
  for (const StoredObject& object : objects) {
    const auto name = parse_stored_name(object.name);
    const auto term = name ? parse_manifest_name(name->second) : std::nullopt;
    if (!term) continue;
    StoredCheckpoint& checkpoint = newest[name->first];
    if (checkpoint.step >= Step(0) && checkpoint.term >= *term) continue;
    checkpoint = {name->first, *term, object.name};
  }
  std::vector<StoredCheckpoint> result;
  std::string highest;
  for (auto& [step, checkpoint] : newest) {
    if (checkpoint.term < highest) continue;
    highest = checkpoint.term;
    result.push_back(std::move(checkpoint));
  }
  std::ranges::reverse(result);
  return result;
}

absl::StatusOr<std::string> take_store_term(ObjectStore& store, const std::string& owner) {
  const auto bytes = std::as_bytes(std::span(owner));
  ASSIGN_OR_RETURN(const std::string highest, highest_term(store));
  int64_t number = 0;
  (void)absl::SimpleAtoi(highest.substr(0, kTermDigits), &number);
  const std::string term =
      absl::StrFormat("%010d.%s", number + 1, to_hex(fingerprint(bytes)).substr(0, kOwnerDigits));
  RETURN_IF_ERROR(store.put(kTerms + term, bytes));
  return term;
}

absl::Status check_store_term(ObjectStore& store, const std::string& own) {
  ASSIGN_OR_RETURN(const std::string highest, highest_term(store));
  if (highest <= own) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(store.url(), ": another host publishes here now (term ",
                                         highest, ", this one has ", own, ")"));
}

absl::Status store_checkpoint(Files& files, ObjectStore& store, const std::string& folder,
                              const std::string& term, Sending sending,
                              const std::function<absl::Status()>& may_publish) {
  ASSIGN_OR_RETURN(const ReadManifest read, read_manifest(files, folder));
  const Manifest& manifest = read.manifest;
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    const ManifestFile& file = manifest.files[i];
    const std::string name = stored_file_name(manifest, i);
    if (sending == Sending::kWhatIsMissing) {
      ASSIGN_OR_RETURN(const bool there, is_there(store, name, file.bytes));
      if (there) continue;
    }
    RETURN_IF_ERROR(put_checked(files, store, join_path(folder, file.name), name, file.bytes));
  }
  RETURN_IF_ERROR(may_publish());
  const std::string name = absl::StrCat(step_directory_name(manifest.position.step), "/",
                                        kManifestPrefix, term, kManifestSuffix);
  return store.put(name, std::as_bytes(std::span(read.text)));
}

absl::Status remove_old_checkpoints(ObjectStore& store, int64_t keep, const std::set<Step>& damaged,
                                    const std::function<absl::Status()>& may_publish) {
  ASSIGN_OR_RETURN(const std::vector<StoredObject> objects, store.list("step-"));
  const std::vector<StoredCheckpoint> checkpoints = stored_checkpoints(objects);
  if (checkpoints.empty()) return absl::OkStatus();
  std::set<Step> kept;
  for (const StoredCheckpoint& checkpoint : checkpoints) {
    if (static_cast<int64_t>(kept.size()) < keep && !damaged.contains(checkpoint.step))
      kept.insert(checkpoint.step);
  }
  std::vector<std::string> manifests;
  std::vector<std::string> others;
  for (const StoredObject& object : objects) {
    const auto name = parse_stored_name(object.name);
    const Step newest = checkpoints.front().step;
    if (!name || name->first >= newest || kept.contains(name->first)) continue;
    (parse_manifest_name(name->second) ? manifests : others).push_back(object.name);
  }
  for (const auto* names : {&manifests, &others}) {
    for (const std::string& name : *names) {
      RETURN_IF_ERROR(may_publish());
      RETURN_IF_ERROR(store.remove(name));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> fetch_checkpoint(Files& files, ObjectStore& store,
                                             const StoredCheckpoint& checkpoint,
                                             const std::string& directory) {
  const std::string path = join_path(directory, step_directory_name(checkpoint.step));
  const std::string fetched = absl::StrCat(path, kFetchedSuffix);
  const absl::Status status = fetch_files(files, store, checkpoint, fetched);
  if (!status.ok()) {
    (void)remove_tree(files, fetched);  // its space is given back
    return status;
  }
  RETURN_IF_ERROR(replace_folder(files, fetched, path));
  return path;
}

}  // namespace evermoe
