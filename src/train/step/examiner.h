// Examines numbers that are not finite (examination.h): the files of it, and what the trainer is to
// do. Threads: the training thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "config/job_config.h"
#include "train/step/examination.h"
#include "train/step/trainer_environment.h"
#include "train/step/verdict.h"

namespace evermoe {

class Examiner {
 public:
  // All outlive it. Reads what the role's former processes have left.
  Examiner(const TrainerEnvironment& environment, const ModelShape& shape, std::string role);

  // This rank is about to make such a number. An error that ends the process (Doubtful), or ok:
  // what is made is passed on. `met` says what is to be written down, without `second`.
  absl::Status on_origin(Examination met, int64_t skipped_in_row, bool lowers_scale);
  // Of the step that was met at last: it is reproduced. The micro-batch; -1: none.
  int32_t reproduced_micro_batch(Step step) const;
  // A step has its verdict: one that is applied proves the machine of the first attempt wrong.
  void on_verdict(const StepRecord& record);

 private:
  std::string folder(Step step) const;
  std::string file(Step step) const;
  bool has_others(Step step) const;
  absl::Status write(const Examination& examination) const;
  void conclude(Examination examination, bool is_reproduced);

  const TrainerEnvironment& environment_;
  const ModelShape& shape_;
  const std::string role_;
  std::map<Step, Examination> own_;  // of this role, by step
  Step reproduced_{-1};
};

}  // namespace evermoe
