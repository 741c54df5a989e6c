#include "planner/simulate/run_strategy.h"

#include <vector>

#include "absl/strings/str_join.h"

namespace evermoe {

const char* to_string(StateProtection protection) {
  switch (protection) {
    case StateProtection::kDurable: return "durable";
    case StateProtection::kPeerMemory: return "peer memory";
    case StateProtection::kStageMemory: return "peer memory of a stage";
    case StateProtection::kPartialExperts: return "partial experts (lossy)";
    case StateProtection::kSparse: return "sparse";
    case StateProtection::kReplicas: return "live replicas";
    case StateProtection::kGradients: return "gradients";
  }
  return "";
}

const char* to_string(NodeReplacement replacement) {
  switch (replacement) {
    case NodeReplacement::kRestart: return "restart";
    case NodeReplacement::kStandby: return "standby";
    case NodeReplacement::kElastic: return "elastic";
  }
  return "";
}

bool can_move_roles(StateProtection protection) {
  return protection != StateProtection::kDurable && protection != StateProtection::kPartialExperts;
}

std::string missing_in_runtime(const RunStrategy& strategy) {
  std::vector<std::string> missing;
  if (strategy.protection == StateProtection::kReplicas)
    missing.push_back("recovery from live replicas");
  // Their checkpoints are laid out for all lanes.
  if (strategy.replacement == NodeReplacement::kElastic &&
      strategy.protection == StateProtection::kPartialExperts)
    missing.push_back("partial experts on fewer nodes");
  if (strategy.migrates && !can_move_roles(strategy.protection))
    missing.push_back("moves without copies in peers' memory");
  return absl::StrJoin(missing, " and ");
}

}  // namespace evermoe
