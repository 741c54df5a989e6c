#include "metrics/metrics_writer.h"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr int64_t kMetricsBytesMax = int64_t{1} << 30;
constexpr char kCsvHeader[] = "step,loss,validation_loss\n";

// The step of a complete line of either file; -1 for anything else.
int64_t step_of(const std::string& line, bool csv) {
  if (csv) {
    char* end = nullptr;
    const int64_t step = std::strtoll(line.c_str(), &end, 10);
    return end != line.c_str() && *end == ',' ? step : -1;
  }
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer())
    return -1;
  return object["step"].get<int64_t>();
}

// What of an earlier run's file still holds when the run goes on from `resumed`.
absl::StatusOr<std::string> kept_lines(Files& files, const std::string& path, Step resumed,
                                       bool csv) {
  if (!files.exists(path)) return std::string();
  ASSIGN_OR_RETURN(const std::string old, read_file(files, path, kMetricsBytesMax));
  std::string kept;
  // The piece after the last newline is empty or torn.
  std::vector<std::string> lines = absl::StrSplit(old, '\n');
  lines.pop_back();
  for (const std::string& line : lines) {
    const int64_t step = step_of(line, csv);
    if (step >= 0 && step <= resumed.value) kept += line + "\n";
  }
  return kept;
}

absl::Status append_text(WritableFile& file, const std::string& text) {
  return file.append(std::as_bytes(std::span(text.data(), text.size())));
}

// Puts the kept lines under a new name, goes on writing there and renames it into place.
absl::StatusOr<std::unique_ptr<WritableFile>> reopen(Files& files, const std::string& path,
                                                     const std::string& content) {
  ASSIGN_OR_RETURN(auto file, files.create(path + ".tmp", {}));
  RETURN_IF_ERROR(append_text(*file, content));
  RETURN_IF_ERROR(files.rename(path + ".tmp", path));
  return file;
}

// JSON and CSV have no infinities; an overflowed step has.
std::string number(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.9g", value) : "null";
}

double unix_seconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

std::string numbers(const std::vector<double>& values) {
  return absl::StrJoin(values, ",",
                       [](std::string* out, double value) { out->append(number(value)); });
}

std::string protection_fields(const StepMetrics& m) {
  if (m.window_steps == 0) return "";
  return absl::StrFormat(
      ",\"window_steps\":%d,\"complete_window\":%d,\"log_bytes\":%d,\"snapshot_bytes\":%d,"
      "\"captured_bytes\":%d,\"read_wait_seconds\":%s,\"copy_wait_seconds\":%s,\"copying_seconds\":"
      "%s",
      m.window_steps, m.complete_window.value, m.log_bytes, m.snapshot_bytes, m.captured_bytes,
      number(m.read_wait_seconds), number(m.copy_wait_seconds), number(m.copying_seconds));
}

std::string lossy_fields(const StepMetrics& m) {
  if (m.lost_token_share == 0) return "";
  return absl::StrFormat(",\"lost_token_share\":%s", number(m.lost_token_share));
}

class FileMetricsWriter : public MetricsWriter {
 public:
  FileMetricsWriter(std::unique_ptr<WritableFile> lines, std::unique_ptr<WritableFile> curve)
      : lines_(std::move(lines)), curve_(std::move(curve)) {}

  absl::Status append(const StepMetrics& m) override {
    const std::string line = absl::StrFormat(
        "{\"step\":%d,\"loss\":%s,\"auxiliary_loss\":%s,\"gradient_norm\":%s,\"learning_rate\":%s,"
        "\"load_imbalance\":%s,\"routing_skew\":[%s],\"loss_scale\":%s,\"applied\":%s,\"tokens_per_"
        "second\":%s,"
        "\"seconds\":%s,\"time\":%.6f%s%s}\n",
        m.step.value, number(m.loss), number(m.auxiliary_loss), number(m.gradient_norm),
        number(m.learning_rate), number(m.load_imbalance), numbers(m.routing_skew),
        number(m.loss_scale), m.applied ? "true" : "false", number(m.tokens_per_second),
        number(m.seconds), unix_seconds(m.time), protection_fields(m), lossy_fields(m));
    RETURN_IF_ERROR(append_text(*lines_, line));
    return append_text(*curve_, absl::StrFormat("%d,%s,\n", m.step.value, number(m.loss)));
  }

  absl::Status append_validation(Step step, double loss, double accuracy) override {
    RETURN_IF_ERROR(append_text(
        *lines_,
        absl::StrFormat("{\"step\":%d,\"validation_loss\":%s,\"validation_accuracy\":%s}\n",
                        step.value, number(loss), number(accuracy))));
    return append_text(*curve_, absl::StrFormat("%d,,%s\n", step.value, number(loss)));
  }

  absl::Status close() override {
    RETURN_IF_ERROR(lines_->close());
    return curve_->close();
  }

 private:
  std::unique_ptr<WritableFile> lines_;
  std::unique_ptr<WritableFile> curve_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsWriter>> MetricsWriter::open(Files& files,
                                                                   const std::string& directory,
                                                                   Step resumed) {
  RETURN_IF_ERROR(files.create_directories(directory));
  const std::string lines_path = join_path(directory, "metrics.jsonl");
  const std::string curve_path = join_path(directory, "loss.csv");
  ASSIGN_OR_RETURN(const std::string lines, kept_lines(files, lines_path, resumed, /*csv=*/false));
  ASSIGN_OR_RETURN(const std::string curve, kept_lines(files, curve_path, resumed, /*csv=*/true));
  ASSIGN_OR_RETURN(auto lines_file, reopen(files, lines_path, lines));
  ASSIGN_OR_RETURN(auto curve_file, reopen(files, curve_path, kCsvHeader + curve));
  return std::make_unique<FileMetricsWriter>(std::move(lines_file), std::move(curve_file));
}

}  // namespace evermoe
