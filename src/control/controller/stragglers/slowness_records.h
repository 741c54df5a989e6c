// What a job remembers of roles that computed slower than others, and of slow links.
#pragma once

#include <string>

#include "base/ids.h"

namespace evermoe {

struct StragglerRecord {
  std::string role;
  Node node;
  double factor = 1;  // how many times as long as others it computed, when it was found
  Step step;          // then
  Step until{-1};     // the same when it was none any more; -1: its process ended before
};

struct SlowLinkRecord {
  Node from, to;
  double factor = 1;  // how many times as long as usual messages took, when it was found
  Step step;          // then
  Step until{-1};     // the same when it was slow no more; -1: the run or a node ended before
};

}  // namespace evermoe
