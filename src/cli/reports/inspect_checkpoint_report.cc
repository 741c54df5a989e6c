#include "cli/reports/inspect_checkpoint_report.h"

#include <map>

#include "absl/strings/str_split.h"
#include "checkpoint/format/checkpoint_names.h"
#include "cli/checkpoint_argument.h"
#include "model/operator.h"

namespace evermoe {
namespace {

// From names as in OperatorSpec::name. nullopt for strangers.
std::optional<OperatorKind> kind_of(const std::string& name) {
  if (name == "embedding") return OperatorKind::kEmbedding;
  if (name == "head") return OperatorKind::kHead;
  const std::vector<std::string> words = absl::StrSplit(name, '.');
  if (words.size() < 3 || words[0] != "layer") return std::nullopt;
  if (words.size() == 3 && words[2] == "block") return OperatorKind::kBlock;
  if (words.size() == 3 && words[2] == "gate") return OperatorKind::kGate;
  if (words.size() == 4 && words[2] == "expert") return OperatorKind::kExpert;
  return std::nullopt;
}

std::vector<CheckpointReport::Kind> count_kinds(const Manifest& manifest) {
  constexpr int kOther = 1 << 8;
  std::map<int, CheckpointReport::Kind> kinds;
  for (const ManifestOperator& op : manifest.operators) {
    const std::optional<OperatorKind> known = kind_of(op.name);
    CheckpointReport::Kind& kind = kinds[known ? static_cast<int>(*known) : kOther];
    kind.name = known ? to_string(*known) : "other";
    ++kind.operators;
    kind.elements += op.flat_size;
    kind.bytes += state_bytes(manifest.state_types, op.flat_size);
  }
  std::vector<CheckpointReport::Kind> result;
  for (auto& [order, kind] : kinds) result.push_back(std::move(kind));
  return result;
}

}  // namespace

CheckpointReport report_checkpoint(const CheckpointReader& checkpoint) {
  CheckpointReport report;
  report.path = checkpoint.path();
  report.manifest = checkpoint.manifest();
  report.kinds = count_kinds(report.manifest);
  const std::vector<int64_t> used = used_bytes(report.manifest);
  for (size_t i = 0; i < used.size(); ++i) {
    const ManifestFile& file = report.manifest.files[i];
    const std::string name =
        file.step < Step(0) ? file.name : join_path(step_directory_name(file.step), file.name);
    report.files.push_back({name, file.rank, 0, used[i]});
    report.bytes += used[i];
  }
  report.ages = expert_ages(report.manifest);
  for (const ManifestOperator& op : report.manifest.operators) {
    for (const ManifestShard& shard : op.shards)
      ++report.files[static_cast<size_t>(shard.file)].shards;
    report.shards += static_cast<int64_t>(op.shards.size());
  }
  absl::StatusOr<JobConfig> config = stored_configuration(checkpoint);
  if (config.ok())
    report.config = *std::move(config);
  else
    report.config_problem = std::string(config.status().message());
  return report;
}

}  // namespace evermoe
