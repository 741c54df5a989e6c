// How old the experts of a checkpoint are: a partial one takes some from checkpoints before it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"

namespace evermoe {

struct ExpertAges {
  struct Group {
    Step step;  // of the state that the checkpoint holds
    int64_t experts = 0;
  };
  std::vector<Group> groups;   // newest first, without empty ones
  int64_t older = 0;           // experts that are not of the checkpoint's step
  std::string oldest;          // the first of those with the oldest state, by name; empty: none
  Step oldest_step{-1};        // of that one
  int64_t unsaved_tokens = 0;  // of all experts (ManifestOperator)
  int64_t lost_tokens = 0;
};

ExpertAges expert_ages(const Manifest& manifest);

// "6 of step 60, 2 of step 40; the oldest: layer.0.expert.3, 20 steps older". REQUIRES: there are
// experts.
std::string to_text(const ExpertAges& ages);

}  // namespace evermoe
