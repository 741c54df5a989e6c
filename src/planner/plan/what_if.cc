#include "planner/plan/what_if.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "planner/report/amount_text.h"
#include "planner/report/forecast_json.h"
#include "planner/simulate/time_shares.h"

namespace evermoe {
namespace {

// The input on another number of nodes: racks and batch grow with them.
PlanInput scaled_input(const PlanInput& input, int nodes) {
  PlanInput scaled = input;
  const ClusterSpec& from = input.cluster;
  scaled.cluster.nodes = nodes;
  scaled.cluster.spares = 0;
  const auto racks = int64_t{from.racks} * nodes / from.nodes;
  scaled.cluster.racks = from.racks == 0 ? 0 : static_cast<int>(std::max<int64_t>(1, racks));
  if (input.model.sequences > 0) {
    scaled.model.sequences = std::max<int64_t>(1, input.model.sequences * nodes / from.nodes);
  }
  scaled.model.layout.reset();
  return scaled;
}

ScaleRow row_of(const ProtectionPlan& plan) {
  const RunEstimates& runs = plan.best.estimates;
  return {.gpus = plan.cluster.gpus(),
          .nodes = plan.cluster.nodes,
          .job_mtbf_seconds = plan.job_mtbf_seconds,
          .step_seconds = plan.step.profile.step_seconds,
          .tokens_per_step = plan.step.profile.tokens_per_step,
          .layout = layout_text(plan.layout),
          .strategy = plan.best.priced.strategy.name,
          .ettr = runs.ettr,
          .estimates = runs,
          .tokens_per_second = plan.tokens_per_second,
          .spares = plan.best.spares,
          .spares_wanted = plan.spares_wanted,
          .downtime_seconds_per_day = 86400 * runs.downtime_share.mean,
          .downtime_per_interruption_seconds = runs.downtime_per_interruption_seconds.mean,
          .host_bytes_per_gpu = plan.host_bytes_per_gpu};
}

std::string why_higher(const ScaleRow& before, const ScaleRow& row) {
  std::string text =
      absl::StrFormat("From %d to %d GPUs the ETTR rises from %s to %s", before.gpus, row.gpus,
                      percent_text(before.ettr.mean), percent_text(row.ettr.mean));
  const std::string fall = largest_fall(before.estimates, row.estimates);
  if (!fall.empty()) absl::StrAppend(&text, ": the most is saved on ", fall);
  if (row.strategy != before.strategy) {
    absl::StrAppend(&text, ", because another plan is the best: ", row.strategy, " instead of ",
                    before.strategy);
  } else if (row.layout != before.layout) {
    absl::StrAppend(&text, ", because a step is laid out differently: ", row.layout, " instead of ",
                    before.layout);
  }
  const double idle_before = static_cast<double>(before.spares) / (before.nodes + before.spares);
  const double idle = static_cast<double>(row.spares) / (row.nodes + row.spares);
  return absl::StrCat(text, ". Idle spares are ", percent_text(idle), " of all nodes (",
                      percent_text(idle_before), " before), which the ETTR does not count.");
}

}  // namespace

absl::StatusOr<std::vector<ScaleRow>> what_if_scale(const PlanInput& input,
                                                    std::span<const int> gpus) {
  std::vector<ScaleRow> rows;
  for (const int count : gpus) {
    if (count < 1 || count % input.cluster.gpus_per_node != 0) {
      return InvalidInput(absl::StrCat("what-if: found ", count, " GPUs, allowed: multiples of ",
                                       input.cluster.gpus_per_node, " (GPUs of a node)"));
    }
    const PlanInput scaled = scaled_input(input, count / input.cluster.gpus_per_node);
    const auto plan = plan_protection(scaled);
    if (plan.ok()) {
      rows.push_back(row_of(*plan));
    } else if (absl::IsResourceExhausted(plan.status())) {
      rows.push_back({.gpus = count,
                      .nodes = scaled.cluster.nodes,
                      .job_mtbf_seconds = scaled.cluster.job_mtbf_seconds(),
                      .refused = std::string(plan.status().message())});
    } else {
      return annotate(plan.status(), absl::StrCat(count, " GPUs"));
    }
  }
  return rows;
}

std::vector<int> usual_scales(int gpus_per_node) {
  std::vector<int> scales{8, 64, 512, 1024, 4096, 16384, 65536, 131072};
  std::erase_if(scales, [&](int gpus) { return gpus % gpus_per_node != 0; });
  return scales;
}

std::vector<std::string> explain_rises(std::span<const ScaleRow> rows) {
  std::vector<std::string> sentences;
  const ScaleRow* before = nullptr;
  for (const ScaleRow& row : rows) {
    if (!row.refused.empty()) continue;
    if (before != nullptr && row.ettr.low > before->ettr.high)
      sentences.push_back(why_higher(*before, row));
    before = &row;
  }
  return sentences;
}

std::string to_text(std::span<const ScaleRow> rows) {
  std::string text =
      absl::StrFormat("%8s %12s %9s %9s %18s %7s %14s %14s  %s\n", "GPUs", "one failure", "batch",
                      "step", "ETTR", "spares", "downtime a day", "each", "strategy");
  for (const ScaleRow& row : rows) {
    if (!row.refused.empty()) {
      absl::StrAppendFormat(&text, "%8d %12s  %s\n", row.gpus, duration_text(row.job_mtbf_seconds),
                            row.refused);
      continue;
    }
    absl::StrAppendFormat(
        &text, "%8d %12s %9s %9s %18s %7d %14s %14s  %s\n", row.gpus,
        duration_text(row.job_mtbf_seconds), count_text(row.tokens_per_step),
        duration_text(row.step_seconds),
        absl::StrFormat("%.2f ± %.2f %%", 100 * row.ettr.mean, 100 * row.ettr.half_width()),
        row.spares, duration_text(row.downtime_seconds_per_day),
        duration_text(row.downtime_per_interruption_seconds), row.strategy);
  }
  absl::StrAppend(&text, kBatchGrows, "\n");
  for (const std::string& sentence : explain_rises(rows)) absl::StrAppend(&text, sentence, "\n");
  return text;
}

std::string to_json(std::span<const ScaleRow> rows) {
  auto json = nlohmann::ordered_json::array();
  for (const ScaleRow& row : rows) {
    json.push_back({{"gpus", row.gpus},
                    {"nodes", row.nodes},
                    {"job_mtbf_seconds", row.job_mtbf_seconds},
                    {"step_seconds", row.step_seconds},
                    {"tokens_per_step", row.tokens_per_step},
                    {"strategy", row.strategy},
                    {"ettr", as_json(row.ettr)},
                    {"tokens_per_second", row.tokens_per_second},
                    {"spares", row.spares},
                    {"spares_wanted", row.spares_wanted},
                    {"downtime_seconds_per_day", row.downtime_seconds_per_day},
                    {"downtime_per_interruption_seconds", row.downtime_per_interruption_seconds},
                    {"host_bytes_per_gpu", row.host_bytes_per_gpu},
                    {"refused", row.refused}});
  }
  return json.dump(2) + "\n";
}

}  // namespace evermoe
