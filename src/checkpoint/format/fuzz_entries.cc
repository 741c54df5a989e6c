#include "checkpoint/format/fuzz_entries.h"

#include <string>

#include "base/check.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/safetensors.h"

namespace evermoe {
namespace {

bool try_manifest(const std::string& text, ManifestKind kind) {
  const absl::StatusOr<Manifest> manifest = parse_manifest(text, kind, "fuzz");
  if (!manifest.ok()) return false;
  const absl::StatusOr<std::string> written = manifest_text(*manifest, kind);
  CHECK_OK(written.status());
  const absl::StatusOr<Manifest> again = parse_manifest(*written, kind, "again");
  CHECK_OK(again.status());
  CHECK(*again == *manifest);
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
