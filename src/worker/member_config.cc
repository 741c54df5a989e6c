#include "worker/member_config.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "config/job_strategy.h"
#include "config/job_topology.h"
#include "recovery/plan/protection_memory.h"

namespace evermoe {
namespace {

OrderingOptions ordering_options(const ProtectionConfig& protection) {
  OrderingOptions options;
  switch (protection.ordering) {
    case CaptureOrdering::kAuto: options.by = OrderBy::kExpectedCost; break;
    case CaptureOrdering::kPopularity: options.by = OrderBy::kPopularity; break;
    case CaptureOrdering::kSoft: options.by = OrderBy::kSoft; break;
    case CaptureOrdering::kDecayed: options.by = OrderBy::kDecayed; break;
    case CaptureOrdering::kCapacity: options.by = OrderBy::kCapacity; break;
    case CaptureOrdering::kRatio: options.by = OrderBy::kRatio; break;
  }
  options.reorder = {100 * protection.reorder_share, 100 * protection.reorder_change};
  return options;
}

// Of an operator of the stage as it is: what this lane may come to hold of it when experts move, on
// average.
OperatorBytes bytes_when_moved(const StageOperator& op, const JobConfig& config) {
  if (!moves_experts(config) || op.expert < 0) return op.bytes;
  const auto lanes = static_cast<int>(std::ranges::min(config.parallel.lanes));
  const int64_t held =
      slots_of_lane(balance_options(config), static_cast<int>(config.model.experts), lanes);
  const auto share = [&](int64_t whole) {
    return (whole * held + config.model.experts - 1) / config.model.experts;
  };
  return {share(op.whole.full), share(op.whole.compute), share(op.whole.gradients)};
}

// How many times as much a lane may come to hold, and to send, when others rest.
int64_t growth_of(const JobConfig& config) {
  const std::vector<int> narrowest = narrowest_lanes(config);
  int64_t growth = 1;
  for (size_t stage = 0; stage < narrowest.size(); ++stage) {
    const int64_t lanes = config.parallel.lanes[stage], least = narrowest[stage];
    growth = std::max(growth, (lanes + least - 1) / least);
  }
  return growth;
}

// As many slots as there is memory for. InvalidInput with the arithmetic if there is none for one.
absl::Status fit_into_budget(const JobConfig& config, const StageTrainer& trainer,
                             MemberOptions& options) {
  const ProtectionConfig& protection = config.protection;
  const int64_t growth = growth_of(config);
  std::vector<OperatorBytes> operators;
  for (const StageOperator& op : trainer.operators()) {
    const OperatorBytes bytes = bytes_when_moved(op, config);
    operators.push_back({growth * bytes.full, growth * bytes.compute, growth * bytes.gradients});
  }
  CaptureRule& captures = options.strategy.captures;
  captures.slots = std::min(captures.slots, static_cast<int>(operators.size()));
  const int copies = static_cast<int>(protection.copies);
  const MemoryConditions conditions{options.strategy, copies, growth * trainer.boundary_bytes()};
  captures.slots_max = longest_window(operators, conditions, protection.memory_budget);
  if (captures.slots_max < captures.slots) {
    log_warning(absl::StrCat("windows of ", captures.slots,
                             " slots do not fit into protection.memory_budget; at most ",
                             captures.slots_max, " do"));
  }
  // Longer ones would be cut before they are complete.
  if (moves_experts(config))
    captures.slots_max = static_cast<int>(
        std::min<int64_t>(captures.slots_max, config.experts.rebalance_every_steps));
  const int slots = std::clamp(captures.slots, 1, std::max(1, captures.slots_max));
  const MemoryNeed need = memory_need(operators, slots, conditions);
  RETURN_IF_ERROR(check_budget(need, protection.memory_budget, slots, copies));
  // What the arithmetic leaves is shared out in its proportions.
  options.log_bytes_max = protection.memory_budget - need.snapshots - need.gradients - need.copies;
  options.snapshot_bytes_max = protection.memory_budget - need.log;
  return absl::OkStatus();
}

// Without copies nothing can be made smaller: the messages of the steps under way take what they
// take.
int64_t log_bytes_without_copies(const JobConfig& config, const Strategy& strategy,
                                 const StageTrainer& trainer) {
  const MemoryConditions conditions{strategy, 0, growth_of(config) * trainer.boundary_bytes()};
  return std::max(config.protection.memory_budget, memory_need({}, 1, conditions).log);
}

}  // namespace

WindowConditions window_conditions(const JobConfig& config, const StageTrainer& trainer,
                                   int slots_max) {
  const auto stages = static_cast<double>(config.parallel.lanes.size());
  const auto micro_batches = static_cast<double>(config.train.micro_batches);
  WindowConditions conditions;
  conditions.copy_bytes_per_second = static_cast<double>(config.protection.copy_bandwidth);
  conditions.log_bytes = trainer.boundary_bytes();
  conditions.recovery.stage_share = micro_batches / (micro_batches + stages - 1);
  conditions.recovery.lag_steps = 1;
  // Failures of the job hit its stages in turns.
  conditions.recovery.mtbf_seconds = stages * config.protection.mtbf_seconds;
  conditions.slots_max = slots_max;
  return conditions;
}

absl::StatusOr<MemberOptions> member_options(const JobConfig& config, const StageTrainer& trainer,
                                             bool is_rehearsal) {
  MemberOptions options;
  options.strategy = strategy_of(config);
  options.ordering = ordering_options(config.protection);
  options.is_rehearsal = is_rehearsal;
  options.copies.bytes_per_second = static_cast<double>(config.protection.copy_bandwidth);
  const double probe_seconds = config.stragglers.probe_seconds;
  options.probes.pause =
      probe_seconds > 0 ? absl::Seconds(probe_seconds) : absl::InfiniteDuration();
  options.probes.pair_pause = std::min(options.probes.pair_pause, options.probes.pause);
  if (options.strategy.keeps_copies())
    RETURN_IF_ERROR(fit_into_budget(config, trainer, options));
  else
    options.log_bytes_max = log_bytes_without_copies(config, options.strategy, trainer);
  return options;
}

}  // namespace evermoe
