#include "forecast/run_strategy.h"

namespace evermoe {

const char* to_string(StateProtection protection) {
  switch (protection) {
    case StateProtection::kDurable: return "durable";
    case StateProtection::kPeerMemory: return "peer memory";
    case StateProtection::kPartialExperts: return "partial experts (lossy)";
    case StateProtection::kSparse: return "sparse";
    case StateProtection::kReplicas: return "live replicas";
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

}  // namespace evermoe
