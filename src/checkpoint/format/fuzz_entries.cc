#include "checkpoint/format/fuzz_entries.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/safetensors.h"

namespace evermoe {
namespace {

// What is done with whatever has been accepted: each answer is allowed, but there is one.
void try_mixture(const Manifest& manifest) {
  const std::vector<Step> needed = needed_steps(manifest);
  for (const ManifestOperator& op : manifest.operators) {
    const Step step = saved_at(manifest, op);
    const bool is_own = step == manifest.position.step;
    CHECK(is_own || std::find(needed.begin(), needed.end(), step) != needed.end()) << op.name;
    CHECK(is_own || is_mixed(manifest)) << op.name;
  }
  CHECK_OK(check_source(manifest, manifest, "fuzz"));
  Manifest part = manifest;
  part.files.resize(1);
  part.operators.clear();
  part.world_size = 1;
  if (part.position.step.value < INT64_MAX) ++part.position.step.value;
  part.base = manifest.position.step;
  for (const ManifestOperator& op : manifest.operators) {
    part.histories.push_back({op.name, op.unsaved_tokens, op.lost_tokens, false});
  }
  const absl::StatusOr<Manifest> merged = merge_manifests(std::span(&part, 1), &manifest);
  CHECK(merged.ok() || part.base >= part.position.step) << merged.status();
}

bool try_manifest(const std::string& text, ManifestKind kind) {
  const absl::StatusOr<Manifest> manifest = parse_manifest(text, kind, "fuzz");
  if (!manifest.ok()) return false;
  const absl::StatusOr<std::string> written = manifest_text(*manifest, kind);
  CHECK_OK(written.status());
  const absl::StatusOr<Manifest> again = parse_manifest(*written, kind, "again");
  CHECK_OK(again.status());
  CHECK(*again == *manifest);
  if (kind == ManifestKind::kCheckpoint) try_mixture(*manifest);
  return true;
}

}  // namespace

bool fuzz_safetensors_header(std::span<const std::byte> bytes) {
  // The first byte says how much data follows the header, so that short inputs can describe files.
  if (bytes.empty()) return false;
  const int64_t data = static_cast<int64_t>(bytes[0]) * 4;
  const std::span<const std::byte> header = bytes.subspan(1);
  const int64_t size = static_cast<int64_t>(header.size()) + data;
  const auto parsed = parse_safetensors_header(header, size, "fuzz");
  if (!parsed.ok()) return false;
  std::vector<SafetensorsTensor> tensors = parsed->tensors;
  CHECK_OK(make_safetensors_header(tensors, parsed->metadata, 8).status());
  CHECK(tensors == parsed->tensors);
  return true;
}

bool fuzz_manifest(std::span<const std::byte> bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  bool accepted = false;
  for (ManifestKind kind : {ManifestKind::kCheckpoint, ManifestKind::kRankPart}) {
    accepted |= try_manifest(text, kind);
    accepted |= try_manifest(seal_manifest(text), kind);
  }
  return accepted;
}

}  // namespace evermoe
