#include "checkpoint/format/checkpoint_names.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace evermoe {

std::string step_directory_name(Step step) { return absl::StrFormat("step-%08d", step.value); }
std::string rank_file_name(int rank) { return absl::StrFormat("rank-%04d.safetensors", rank); }
std::string rank_part_name(int rank) { return absl::StrFormat("rank-%04d.json", rank); }

std::optional<Step> parse_step_directory(const std::string& name, const std::string& suffix) {
  const std::string prefix = "step-";
  if (name.size() <= prefix.size() + suffix.size() || name.rfind(prefix, 0) != 0)
    return std::nullopt;
  const size_t digits = name.size() - prefix.size() - suffix.size();
  int64_t value = 0;
  if (!absl::SimpleAtoi(name.substr(prefix.size(), digits), &value) || value < 0)
    return std::nullopt;
  // Only the canonical spelling, so that no two names mean one step.
  if (name != step_directory_name(Step(value)) + suffix) return std::nullopt;
  return Step(value);
}

}  // namespace evermoe
