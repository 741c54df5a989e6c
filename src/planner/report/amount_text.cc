#include "planner/report/amount_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace evermoe {
namespace {

struct Unit {
  double size;
  const char* name;
};

template <size_t N>
std::string in_units(double value, const Unit (&units)[N]) {
  for (const Unit& unit : units) {
    if (value >= unit.size) return absl::StrFormat("%.3g %s", value / unit.size, unit.name);
  }
  return absl::StrFormat("%.3g %s", value / units[N - 1].size, units[N - 1].name);
}

}  // namespace

// Up to two of a unit are said in the smaller one.
std::string duration_text(double seconds) {
  static constexpr Unit kUnits[] = {{86400, "days"}, {3600, "h"}, {60, "min"}};
  for (const Unit& unit : kUnits) {
    if (seconds >= 2 * unit.size) return absl::StrFormat("%.3g %s", seconds / unit.size, unit.name);
  }
  return seconds >= 1 ? absl::StrFormat("%.3g s", seconds)
                      : absl::StrFormat("%.3g ms", seconds * 1e3);
}

std::string bytes_text(double bytes) {
  static constexpr Unit kUnits[] = {{1e15, "PB"}, {1e12, "TB"}, {1e9, "GB"},
                                    {1e6, "MB"},  {1e3, "kB"},  {1, "B"}};
  return in_units(bytes, kUnits);
}

std::string count_text(double count) {
  if (count < 1e3) return absl::StrFormat("%.3g", count);
  static constexpr Unit kUnits[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  return in_units(count, kUnits);
}

std::string percent_text(double share, int digits) {
  return absl::StrFormat("%.*f %%", digits, 100 * share);
}

std::string percent_text(const Estimate& share, int digits) {
  return absl::StrFormat("%.*f %% (%.*f to %.*f)", digits, 100 * share.mean, digits,
                         100 * share.low, digits, 100 * share.high);
}

std::string layout_text(const JobLayout& layout) {
  const auto stages = layout.lanes.size();
  std::string text =
      absl::StrCat(stages, stages == 1 ? " stage of " : " stages of ", layout.lanes.front(),
                   layout.lanes.front() == 1 ? " lane" : " lanes");
  if (layout.tensor_parallel > 1)
    absl::StrAppend(&text, ", each of ", layout.tensor_parallel, " GPUs (tensor parallel)");
  absl::StrAppend(&text, ", ", layout.expert_replicas,
                  layout.expert_replicas == 1 ? " replica" : " replicas", " of each expert");
  if (layout.recompute == ActivationRecompute::kExperts)
    text += ", activations of experts recomputed";
  if (layout.recompute == ActivationRecompute::kLayer)
    text += ", activations of whole layers recomputed";
  return text;
}

std::string batch_text(const JobLayout& layout, double tokens_per_step, const std::string& origin) {
  return absl::StrCat(
      layout.micro_batches, layout.micro_batches == 1 ? " micro-batch of " : " micro-batches of ",
      layout.micro_batch_size, layout.micro_batch_size == 1 ? " sequence, " : " sequences, ",
      count_text(tokens_per_step), " tokens a step (", origin, ")");
}

std::string failures_text(const ClusterSpec& cluster) {
  std::string text = absl::StrCat("one every ", duration_text(cluster.job_mtbf_seconds()));
  const double whole = cluster.whole_job_mtbf_seconds();
  if (whole > 0) absl::StrAppend(&text, ", of the whole job at once every ", duration_text(whole));
  if (cluster.failures.announced_share > 0)
    absl::StrAppendFormat(&text, ", %.3g %% of the nodes' that need repair announced",
                          100 * cluster.failures.announced_share);
  return text;
}

std::string stops_text(const RunEstimates& runs) {
  const std::string text = absl::StrFormat("%.2g interruptions", runs.interruptions_per_day.mean);
  if (runs.moves_per_day.mean == 0) return text;
  return absl::StrFormat("%s and %.2g moves", text, runs.moves_per_day.mean);
}

}  // namespace evermoe
