#include "config/copy_level.h"

namespace evermoe {

std::optional<DomainLevel> copy_level_of(const ProtectionConfig& protection) {
  switch (protection.failure_domain) {
    case FailureDomain::kWorker: return std::nullopt;
    case FailureDomain::kNode: return DomainLevel::kNode;
    case FailureDomain::kRack: return DomainLevel::kRack;
  }
  return std::nullopt;
}

}  // namespace evermoe
