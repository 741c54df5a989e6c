#include "cli/experiment/metrics_tail.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "absl/strings/str_split.h"

namespace evermoe {
namespace {

constexpr int64_t kLookBytesMax = 64 << 20;  // what is left comes with the next look

}  // namespace

int64_t MetricsTail::newest_step() {
  const absl::StatusOr<std::unique_ptr<ReadableFile>> file = files_.open(path_);
  if (!file.ok()) return newest_;
  const int64_t size = (*file)->size();
  if (size < seen_) seen_ = newest_ = 0;
  std::string text(static_cast<size_t>(std::min(size - seen_, kLookBytesMax)), '\0');
  if (text.empty() || !(*file)->read_at(seen_, std::as_writable_bytes(std::span(text))).ok())
    return newest_;
  bytes_read_ += std::ssize(text);
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0: no whole line
  seen_ += std::ssize(text);
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const nlohmann::json entry = nlohmann::json::parse(*line, nullptr, false);
    if (!entry.is_object() || !entry.contains("step")) continue;
    newest_ = entry.value("step", newest_);
    break;
  }
  return newest_;
}

}  // namespace evermoe
