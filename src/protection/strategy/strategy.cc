#include "protection/strategy/strategy.h"

#include "base/check.h"

namespace evermoe {

std::string_view to_string(StrategyKind kind) {
  switch (kind) {
    case StrategyKind::kSparse: return "sparse";
    case StrategyKind::kDense: return "dense";
    case StrategyKind::kGradients: return "gradients";
    case StrategyKind::kPeerMemory: return "peer-memory";
    case StrategyKind::kCheckfreq: return "checkfreq";
    case StrategyKind::kPartialExperts: return "partial-experts";
    case StrategyKind::kNone: return "none";
  }
  CHECK(false) << "strategy " << static_cast<int>(kind);
}

Strategy strategy_of(StrategyKind kind) {
  Strategy strategy{.kind = kind};
  switch (kind) {
    case StrategyKind::kSparse:
    case StrategyKind::kDense: return strategy;
    case StrategyKind::kGradients:
      strategy.log = LogReach::kStep;
      strategy.keeps_gradients = true;
      return strategy;
    case StrategyKind::kPeerMemory:
      strategy.scope = RestoreScope::kEverybody;
      strategy.log = LogReach::kStep;
      return strategy;
    case StrategyKind::kCheckfreq:
    case StrategyKind::kPartialExperts:
    case StrategyKind::kNone:
      strategy.tunes_saves = kind == StrategyKind::kCheckfreq;
      strategy.saves_few_experts = kind == StrategyKind::kPartialExperts;
      strategy.is_exact = kind != StrategyKind::kPartialExperts;
      strategy.scope = RestoreScope::kEverybody;
      strategy.log = LogReach::kNothing;
      strategy.keeps_copies = false;
      return strategy;
  }
  CHECK(false) << "strategy " << static_cast<int>(kind);
}

}  // namespace evermoe
