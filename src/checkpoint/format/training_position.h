// Where a training run stands: the small part of the state that is not in operators.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "experts/migration/expert_balance.h"
#include "parallel/trained_lanes.h"

namespace evermoe {

// Of one job: more is no poisoned range of the data, but data that is not worth training on.
inline constexpr int64_t kQuarantinedWindowsMax = 4096;

struct TrainingPosition {
  Step step;                    // optimizer updates decided (applied or skipped)
  int64_t samples = 0;          // sequences consumed; the next step starts with this one
  int64_t updates_applied = 0;  // AdamW's own step count: skipped steps do not count
  double loss_scale = 1;        // fp16
  int64_t loss_scale_good_steps = 0;
  double validation_loss = -1;  // newest evaluation, -1 for none; for retention only, not digested
  // Of partial-expert checkpoints: K in force (0: no such checkpoint), and what has been lost since
  // it was last raised.
  int64_t experts_saved = 0;
  int64_t lost_under_k = 0;
  // Windows of the training part (data/sample_order.h) that are not trained any more, ascending.
  std::vector<int64_t> quarantined_windows;
  TrainedOn trained_on;        // up to `step`; not digested
  ExpertBalance experts;       // empty unless they move by load; not digested
  std::string model_identity;  // config/job_config.h; compared on load
  std::string configuration;   // complete TOML, to inspect and export without other files

  friend bool operator==(const TrainingPosition&, const TrainingPosition&) = default;
};

}  // namespace evermoe
