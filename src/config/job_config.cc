#include "config/job_config.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "config/assignments.h"
#include "config/config_key.h"
#include "config/validate_config.h"
#include "env/files.h"

namespace evermoe {
namespace {

std::string resolved(const std::string& path, const std::string& directory) {
  return std::filesystem::absolute(std::filesystem::path(directory) / path).lexically_normal();
}

// "bytes" names no file, and an empty path stays empty.
void resolve_path(FoundValue& found, const std::string& directory) {
  std::string* text = std::get_if<std::string>(&found.value);
  if (text != nullptr && !text->empty() && *text != "bytes") *text = resolved(*text, directory);
}

bool sets(const std::vector<Assignment>& batch, const std::string& key) {
  return std::any_of(batch.begin(), batch.end(),
                     [&](const Assignment& a) { return a.key->name == key; });
}

// Applies the text's assignments, or the settings': preset, then style, then the rest in order.
absl::Status apply_batch(std::vector<Assignment> batch, const std::string& directory,
                         JobConfig& config, KeyPlaces& places) {
  std::stable_sort(batch.begin(), batch.end(), [](const Assignment& a, const Assignment& b) {
    return a.key->phase < b.key->phase;
  });
  bool style_changed = false;
  for (Assignment& assignment : batch) {
    const ConfigKey& key = *assignment.key;
    const std::string style_before = config.model.style;
    if (key.is_path) resolve_path(assignment.value, directory);
    places.set_at[key.name] = assignment.where;
    if (!key.read(assignment.value, config)) {
      return not_allowed(places, key.name, assignment.value.text, key.allowed);
    }
    if (key.phase == KeyPhase::kStyle) style_changed = config.model.style != style_before;
  }
  if (style_changed && !sets(batch, "model.shared_hidden")) {
    config.model.shared_hidden =
        shared_experts_of_style(config.model.style) * config.model.expert_hidden;
  }
  return absl::OkStatus();
}

// One entry serves all stages.
absl::Status spread_lanes(ParallelConfig& parallel, const KeyPlaces& places) {
  const auto stages = static_cast<size_t>(parallel.stages);
  if (parallel.lanes.size() == 1) parallel.lanes.assign(stages, parallel.lanes[0]);
  if (parallel.lanes.size() == stages) return absl::OkStatus();
  return not_allowed(
      places, "parallel.lanes", absl::StrCat(parallel.lanes.size(), " entries"),
      absl::StrCat("one integer, or one for each of parallel.stages (", stages, ")"));
}

absl::StatusOr<JobConfig> parse(const std::string& text, const std::string& directory,
                                const std::vector<std::string>& settings, KeyPlaces& places) {
  JobConfig config;
  ASSIGN_OR_RETURN(config.model, preset("qwen-moe-tiny"));
  ASSIGN_OR_RETURN(std::vector<Assignment> in_text, parse_assignments(text, places.origin));
  ASSIGN_OR_RETURN(std::vector<Assignment> in_settings, parse_settings(settings));
  RETURN_IF_ERROR(apply_batch(std::move(in_text), directory, config, places));
  RETURN_IF_ERROR(apply_batch(std::move(in_settings), "", config, places));
  RETURN_IF_ERROR(spread_lanes(config.parallel, places));
  RETURN_IF_ERROR(validate_config(config, places));
  return config;
}

std::string identity(const JobConfig& config, KeyScope least) {
  std::string lines;
  for (const ConfigKey& key : config_keys()) {
    const std::string value = key.write(config);
    if (key.scope >= least && !value.empty()) absl::StrAppend(&lines, key.name, "=", value, "\n");
  }
  return lines;
}

}  // namespace

std::vector<std::pair<std::string, DeviceChoice>> device_choices() {
  return {
      {"auto", DeviceChoice::kAuto}, {"cpu", DeviceChoice::kCpu}, {"cuda", DeviceChoice::kCuda}};
}

std::string to_string(DeviceChoice choice) {
  for (const auto& [name, one] : device_choices()) {
    if (one == choice) return name;
  }
  return "";
}

absl::StatusOr<JobConfig> parse_config(const std::string& text, const std::string& origin,
                                       const std::string& directory,
                                       const std::vector<std::string>& settings) {
  KeyPlaces places{origin, {}};
  return parse(text, directory, settings, places);
}

absl::StatusOr<JobConfig> load_config(const std::string& path,
                                      const std::vector<std::string>& settings) {
  const absl::StatusOr<std::string> text = read_file(real_files(), path, kConfigBytesMax);
  if (absl::IsNotFound(text.status())) {
    return InvalidInput(absl::StrCat(path, ": no such file, allowed: a TOML configuration"));
  }
  if (!text.ok()) return InvalidInput(std::string(text.status().message()));
  KeyPlaces places{path, {}};
  ASSIGN_OR_RETURN(JobConfig config, parse(*text, parent_directory(path), settings, places));
  RETURN_IF_ERROR(validate_data(config, places));
  return config;
}

std::string to_toml(const JobConfig& config) {
  std::string text;
  std::string table;
  for (const ConfigKey& key : config_keys()) {
    const size_t dot = key.name.find('.');
    const std::string value = key.write(config);
    if (value.empty()) continue;
    if (key.name.substr(0, dot) != table) {
      absl::StrAppend(&text, table.empty() ? "" : "\n", "[", key.name.substr(0, dot), "]\n");
      table = key.name.substr(0, dot);
    }
    absl::StrAppend(&text, key.name.substr(dot + 1), " = ", value, "\n");
  }
  return text;
}

std::string model_identity(const JobConfig& config) { return identity(config, KeyScope::kModel); }

std::string bits_identity(const JobConfig& config) { return identity(config, KeyScope::kBits); }

}  // namespace evermoe
