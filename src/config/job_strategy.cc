#include "config/job_strategy.h"

namespace evermoe {
namespace {

// With window = "auto", until steps have been measured.
constexpr int kFirstSlots = 4;
// Longer windows hardly copy less, since what is captured late is kept compute-only in every slot
// before, but take more memory and more work again after a failure.
constexpr int kMeasuredSlotsMax = 8;

CaptureRule sparse_captures(const ProtectionConfig& protection) {
  CaptureRule rule;
  rule.is_measured = protection.window == 0;
  rule.slots = rule.is_measured ? kFirstSlots : static_cast<int>(protection.window);
  rule.slots_max = rule.is_measured ? kMeasuredSlotsMax : rule.slots;
  rule.period = static_cast<int>(protection.window_every_steps);
  return rule;
}

}  // namespace

int64_t steps_between_snapshots(const ProtectionConfig& protection) {
  return protection.strategy == StrategyKind::kGradients ? protection.base_every_steps
                                                         : protection.dense_every_steps;
}

Strategy strategy_of(const JobConfig& config) {
  const ProtectionConfig& protection = config.protection;
  Strategy strategy = strategy_of(protection.strategy);
  if (config.parallel.world_size() == 1) {
    const Strategy asked = strategy;
    strategy = strategy_of(StrategyKind::kNone);
    strategy.kind = asked.kind;
    strategy.tunes_saves = asked.tunes_saves;
    strategy.saves_few_experts = asked.saves_few_experts;
    strategy.is_exact = asked.is_exact;
  }
  strategy.captures =
      protection.strategy == StrategyKind::kSparse
          ? sparse_captures(protection)
          : CaptureRule{.slots = 1,
                        .slots_max = 1,
                        .period = static_cast<int>(steps_between_snapshots(protection))};
  return strategy;
}

}  // namespace evermoe
