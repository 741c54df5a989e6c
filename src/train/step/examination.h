// What is found out about a number that is not finite, with train.non_finite = "examine" or
// "quarantine". Pure. docs/formats/divergence.md describes the file.
//
// The first attempt: the rank that makes such a number out of finite ones (layers/origin_watch.h)
// writes down what it has met, and its process ends before anybody else is given the number. So
// nothing of it is committed, and its role is played anew, elsewhere if another node has room: from
// the same state, with the same samples, to the same step. The second attempt is the judgement:
//
//   finite           the machine of the first was at fault; the step is what it is without a fault
//   not finite again  the samples, or the model, are at fault; the step is skipped as ever
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "checkpoint/format/training_position.h"
#include "config/job_config.h"
#include "train/layers/non_finite.h"

namespace evermoe {

// A sequence of the step's samples. Tokens count from the beginning of the training part.
struct ExaminedSample {
  int32_t micro_batch = 0;
  int64_t window = 0;  // data/sample_order.h
  int64_t begin = 0, end = 0;
  friend bool operator==(const ExaminedSample&, const ExaminedSample&) = default;
};

struct Examination {
  Step step;  // that the attempts were to lead to
  Rank rank;
  std::string role;  // "1.0"
  NonFinite first;
  int32_t node = 0;  // of the first attempt
  // Of the micro-batch, or of all where it is of none.
  std::vector<ExaminedSample> samples;
  Step checkpoint{-1};  // the newest good one before the step; -1: none
  struct Second {
    int32_t node = 0;
    bool is_reproduced = false;
    friend bool operator==(const Second&, const Second&) = default;
  };
  std::optional<Second> second;
  friend bool operator==(const Examination&, const Examination&) = default;
};

// The error with which the process of a first attempt ends: another machine is to compute that
// again.
absl::Status Doubtful(std::string message);
bool is_doubtful(const absl::Status& status);

inline constexpr int64_t kExaminationBytesMax = int64_t{16} << 20;

std::string to_json(const Examination& examination, const ModelShape& shape);
// Corrupt says what is wrong with the text.
absl::StatusOr<Examination> parse_examination(const std::string& text, const std::string& name,
                                              const ModelShape& shape);
// "layer.1.gate, backward, micro-batch 3 of step 12 on node 0", and what came of it.
std::string describe(const Examination& examination, const ModelShape& shape);

enum class OriginDecision {
  kPass,        // as if nobody had looked: the verdict skips the step
  kAttempt,     // it is the first attempt: write it down, and end
  kReproduced,  // it is the second one: write that down, and pass
};
struct OriginAsked {
  Rank rank;  // that has met it
  // What the folder of the step has of this role, and whether it has anything of another one: what
  // is met then may be what that one has passed on.
  std::optional<Examination> own;
  bool has_others = false;
  int64_t skipped_in_row = 0;  // before this step: one that follows another is no news
  bool lowers_scale = false;   // FP16: the ordinary way to find the loss scale
};
OriginDecision decide_origin(const OriginAsked& asked);

// The windows that are not trained any more after these, ascending; nullopt: there would be more
// than kQuarantinedWindowsMax, or than half of all `windows`.
std::optional<std::vector<int64_t>> quarantined_with(const std::vector<int64_t>& before,
                                                     const std::vector<int64_t>& more,
                                                     int64_t windows);

}  // namespace evermoe
