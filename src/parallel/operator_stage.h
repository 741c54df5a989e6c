// Which stage an operator lives on.
#pragma once

#include "model/operator.h"
#include "parallel/topology.h"

namespace evermoe {

inline int stage_of(const OperatorSpec& spec, const Topology& topology) {
  if (spec.kind == OperatorKind::kEmbedding) return 0;
  if (spec.kind == OperatorKind::kHead) return topology.stages() - 1;
  int stage = 0;
  while (topology.first_layer(stage + 1) <= spec.layer) ++stage;
  return stage;
}

}  // namespace evermoe
