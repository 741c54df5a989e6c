#include "control/controller/suspicion.h"

namespace evermoe {

std::optional<Rank> Suspicion::accused() const {
  std::optional<Rank> first;
  for (const auto& [accuser, blamed] : blames_) {
    if (!blamed) continue;
    if (!blames_.contains(*blamed)) return blamed;
    if (!first) first = blamed;
  }
  return first;
}

}  // namespace evermoe
