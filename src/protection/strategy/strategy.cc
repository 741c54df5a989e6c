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

LogReach Strategy::log() const {
  switch (restore) {
    case Restore::kStage: return LogReach::kWindow;
    case Restore::kRoleByUpdates:
    case Restore::kEverybody:
    case Restore::kEverybodyFromStorage: return LogReach::kStep;
  }
  CHECK(false) << "restore " << static_cast<int>(restore);
}

Strategy strategy_of(StrategyKind kind) {
  Strategy strategy{.kind = kind};
  switch (kind) {
    case StrategyKind::kSparse:
    case StrategyKind::kDense: strategy.restore = Restore::kStage; return strategy;
    case StrategyKind::kGradients: strategy.restore = Restore::kRoleByUpdates; return strategy;
    case StrategyKind::kPeerMemory:
      strategy.restore = Restore::kEverybody;
      strategy.sends_in_gaps = true;
      return strategy;
    case StrategyKind::kCheckfreq:
    case StrategyKind::kPartialExperts:
    case StrategyKind::kNone:
      strategy.restore = Restore::kEverybodyFromStorage;
      strategy.tunes_saves = kind == StrategyKind::kCheckfreq;
      strategy.saves_few_experts = kind == StrategyKind::kPartialExperts;
      strategy.is_exact = kind != StrategyKind::kPartialExperts;
      return strategy;
  }
  CHECK(false) << "strategy " << static_cast<int>(kind);
}

}  // namespace evermoe
