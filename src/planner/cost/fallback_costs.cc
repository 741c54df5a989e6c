// Durable saves below copies in memory: protection_costs.h.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/cost/protection_costs.h"
#include "planner/report/amount_text.h"
#include "protection/interval/interval.h"

namespace evermoe {
namespace {

constexpr double kCostLeast = 1e-3;  // seconds of a save that stalls nothing and takes no bandwidth
constexpr double kNeverSeconds = 1e12, kCenturySeconds = 100 * 365.25 * 86400;

double rate_of(double mtbf_seconds) { return mtbf_seconds > 0 ? 1 / mtbf_seconds : 0; }

double save_cost_seconds(const ClusterSpec& cluster, const PeriodicSave& save) {
  return save.stall_seconds + cluster.capture_overhead_share * save.durable_after_seconds +
         kCostLeast;
}

std::string losses_text(const MemoryLoss& loss) {
  std::string text;
  if (loss.whole_job_mtbf_seconds > 0)
    absl::StrAppend(&text, "the whole job every ", duration_text(loss.whole_job_mtbf_seconds),
                    ", ");
  if (loss.rack_mtbf_seconds > 0)
    absl::StrAppend(&text, "its only rack every ", duration_text(loss.rack_mtbf_seconds), ", ");
  const bool is_never = loss.copies_mtbf_seconds >= kCenturySeconds;
  return absl::StrCat(
      text, "all copies of a state ",
      is_never ? "hardly ever" : absl::StrCat("every ", duration_text(loss.copies_mtbf_seconds)));
}

std::string reason_of(const PeriodicSave& save, const MemoryLoss& loss, const JobProfile& job) {
  if (save.every_steps == 0)
    return "there is no durable storage: if all copies in memory are lost, so is the run";
  const double interval = static_cast<double>(save.every_steps) * job.step_seconds;
  const char* why =
      interval >= kFallbackLongestSeconds ? "failures would allow longer, a day is the most"
      : interval <= save.durable_after_seconds + job.step_seconds ? "as often as storage takes them"
                                                                  : "what loses least time";
  return absl::StrFormat("durable saves every %d steps (%s), %s; expected losses of memory: %s",
                         save.every_steps, duration_text(interval), why, losses_text(loss));
}

}  // namespace

double MemoryLoss::mtbf_seconds() const {
  return 1 / (rate_of(copies_mtbf_seconds) + rate_of(rack_mtbf_seconds) +
              rate_of(whole_job_mtbf_seconds));
}

// The holders of a failed node's copies fail, too, before there are copies again: about job MTBF /
// (2 x window of danger / node MTBF)^copies.
MemoryLoss memory_loss(const JobProfile& job, const ClusterSpec& cluster, int copies) {
  const double danger =
      2 * (cluster.recovery.restart + 10 * job.step_seconds) / cluster.failures.node_mtbf_seconds;
  FailureLaw apart = cluster.failures;
  apart.whole_job_node_seconds = 0;
  MemoryLoss loss;
  loss.copies_mtbf_seconds = 1 / failure_rate(apart, cluster.nodes, cluster.racks) /
                             std::pow(std::min(0.5, danger), copies);
  if (cluster.racks == 1) loss.rack_mtbf_seconds = cluster.failures.rack_mtbf_seconds;
  loss.whole_job_mtbf_seconds = cluster.whole_job_mtbf_seconds();
  return loss;
}

PeriodicSave price_fallback(const JobProfile& job, const ClusterSpec& cluster, int copies) {
  if (cluster.durable_bytes_per_second() == 0) return {};
  PeriodicSave save{.stall_seconds = save_stall_seconds(job, cluster),
                    .durable_after_seconds = load_durable_seconds(job, cluster)};
  const double mtbf = memory_loss(job, cluster, copies).mtbf_seconds();
  // Losses that never come have no optimum.
  const double work = mtbf < kNeverSeconds
                          ? best_interval_seconds({.save_seconds = save_cost_seconds(cluster, save),
                                                   .mtbf_seconds = mtbf})
                          : mtbf;
  const double interval =
      std::max(save.durable_after_seconds, std::min(work, kFallbackLongestSeconds));
  save.every_steps =
      std::max<int64_t>(1, static_cast<int64_t>(std::ceil(interval / job.step_seconds)));
  return save;
}

void add_fallback(const JobProfile& job, const ClusterSpec& cluster, PricedProtection& priced) {
  RunStrategy& strategy = priced.strategy;
  strategy.fallback = price_fallback(job, cluster, strategy.copies);
  priced.fallback_reason =
      reason_of(strategy.fallback, memory_loss(job, cluster, strategy.copies), job);
}

}  // namespace evermoe
