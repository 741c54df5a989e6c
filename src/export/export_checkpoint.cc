#include "export/export_checkpoint.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/casts.h"
#include "export/weight_files.h"

namespace evermoe {
namespace {

constexpr char kUnfinishedSuffix[] = ".exporting";
// config.json and its neighbours, and what the file system needs for itself.
constexpr int64_t kSpareBytes = 1 << 20;

absl::Status check_operators(const CheckpointReader& checkpoint, const ExportPlan& plan) {
  const auto differs = [&](const std::string& what) {
    return Corrupt(absl::StrCat(checkpoint.path(),
                                ": its operators are not those of its configuration: ", what));
  };
  const Manifest& manifest = checkpoint.manifest();
  for (const ExportOperator& op : plan.operators) {
    const ManifestOperator* found = manifest.find(op.name);
    if (found == nullptr) return differs(absl::StrCat(op.name, " is missing"));
    if (found->flat_size == op.flat_size) continue;
    return differs(
        absl::StrCat(op.name, " has ", found->flat_size, " elements instead of ", op.flat_size));
  }
  if (manifest.operators.size() == plan.operators.size()) return absl::OkStatus();
  return differs(
      absl::StrCat("there are ", manifest.operators.size(), " instead of ", plan.operators.size()));
}

absl::Status check_out(Files& files, const std::string& out) {
  if (!files.exists(out)) return absl::OkStatus();
  if (files.is_directory(out)) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, files.list(out));
    if (names.empty()) return absl::OkStatus();
  }
  return InvalidInput(
      absl::StrCat(out, ": exists and is not an empty folder, allowed: a new or empty folder"));
}

absl::Status check_space(Files& files, const std::string& folder, int64_t bytes) {
  ASSIGN_OR_RETURN(const int64_t free, files.free_bytes(folder));
  if (free >= bytes) return absl::OkStatus();
  return NoCapacity(
      absl::StrCat(folder, ": the export needs ", bytes, " bytes, the disk has ", free));
}

absl::Status write_weights(Files& files, CheckpointReader& checkpoint, const ExportPlan& plan,
                           const std::string& folder, const std::vector<WeightFile>& layout) {
  WeightFileWriter writer(files, folder, layout);
  const ElementType stored = type_of(checkpoint.manifest().state_types, StatePart::kMaster);
  // Tensors do not begin and end with blocks.
  const bool has_blocks = stored == ElementType::kFp8;
  const ElementType from = has_blocks ? ElementType::kFp32 : stored;
  std::vector<std::byte> blocks, flat;
  for (const ExportOperator& op : plan.operators) {
    flat.resize(static_cast<size_t>(stored_bytes(from, op.flat_size)));
    std::vector<std::byte>& into = has_blocks ? blocks : flat;
    into.resize(static_cast<size_t>(stored_bytes(stored, op.flat_size)));
    RETURN_IF_ERROR(checkpoint.read(op.name, StatePart::kMaster, {0, op.flat_size}, into));
    if (has_blocks) cast_elements(stored, blocks, from, flat);
    for (const ExportTensor& tensor : op.tensors) {
      RETURN_IF_ERROR(writer.add(tensor, from, flat, plan.type));
    }
  }
  return writer.finish();
}

absl::Status write_folder(Files& files, CheckpointReader& checkpoint, const ExportPlan& plan,
                          const std::string& folder, const std::vector<WeightFile>& layout,
                          const std::vector<ExportFile>& more) {
  int64_t bytes = kSpareBytes;
  for (const WeightFile& file : layout) bytes += file.bytes;
  for (const ExportFile& file : more) bytes += std::ssize(file.content);
  RETURN_IF_ERROR(check_space(files, folder, bytes));
  RETURN_IF_ERROR(write_weights(files, checkpoint, plan, folder, layout));
  if (layout.size() > 1) {
    RETURN_IF_ERROR(write_file_synced(files, join_path(folder, "model.safetensors.index.json"),
                                      weight_index(layout)));
  }
  RETURN_IF_ERROR(
      write_file_synced(files, join_path(folder, "config.json"), plan.config.dump(2) + "\n"));
  // Without it transformers guesses the same from config.json, with a warning.
  RETURN_IF_ERROR(write_file_synced(files, join_path(folder, "generation_config.json"),
                                    "{\n  \"_from_model_config\": true\n}\n"));
  for (const ExportFile& file : more) {
    RETURN_IF_ERROR(write_file_synced(files, join_path(folder, file.name), file.content));
  }
  return files.sync_directory(folder);
}

absl::Status make_visible(Files& files, const std::string& folder, const std::string& out) {
  RETURN_IF_ERROR(files.rename(folder, out));
  return files.sync_directory(parent_directory(out));
}

ExportSummary summarise(const ExportPlan& plan, const std::vector<WeightFile>& layout) {
  ExportSummary summary;
  for (const WeightFile& file : layout) {
    summary.weight_files.push_back(file.name);
    summary.bytes += file.tensors.back().end;
  }
  for (const ExportOperator& op : plan.operators) {
    for (const ExportTensor& tensor : op.tensors) summary.parameters += tensor.source.size();
  }
  return summary;
}

// The folder's unfinished name must lie beside it, not in it.
std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

absl::StatusOr<ExportSummary> export_checkpoint(Files& files, CheckpointReader& checkpoint,
                                                const ExportPlan& plan, const std::string& path,
                                                const ExportOptions& options) {
  const std::string out = without_trailing_slashes(path);
  RETURN_IF_ERROR(check_operators(checkpoint, plan));
  RETURN_IF_ERROR(check_out(files, out));
  ASSIGN_OR_RETURN(
      const std::vector<WeightFile> layout,
      lay_out_weight_files(plan, options.file_bytes_max, checkpoint.position().step.value));
  const std::string unfinished = out + kUnfinishedSuffix;
  RETURN_IF_ERROR(remove_tree(files, unfinished));
  RETURN_IF_ERROR(files.create_directories(unfinished));
  absl::Status status = write_folder(files, checkpoint, plan, unfinished, layout, options.files);
  if (status.ok()) status = make_visible(files, unfinished, out);
  if (!status.ok()) {
    // The first error is the one to report; what cannot be removed is replaced by the next export.
    (void)remove_tree(files, unfinished);
    return status;
  }
  return summarise(plan, layout);
}

}  // namespace evermoe
