#include "train/step/divergence.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "model/model_shape.h"

namespace evermoe {
namespace {

constexpr int kFormatVersion = 1;

bool is_of_state(const std::optional<NonFinite>& place) {
  return place &&
         (place->phase == NonFinitePhase::kState || place->phase == NonFinitePhase::kValidation);
}

std::string operator_name(const NonFinite& place, const ModelShape& shape) {
  return model_operators(shape).at(static_cast<size_t>(place.operator_index)).name;
}

std::string words(const NonFinite& place, const ModelShape& shape, Step step) {
  std::string text = absl::StrCat(operator_name(place, shape), ", ", to_string(place.phase));
  if (place.micro_batch >= 0) absl::StrAppend(&text, ", micro-batch ", place.micro_batch);
  return absl::StrCat(text, " of step ", step.value);
}

}  // namespace

int64_t skipped_in_row(int64_t before, const StepRecord& record, const TrainConfig& train) {
  const bool lowers_scale =
      train.precision == Precision::kFp16 && record.loss_scale > kLossScaleMin;
  return record.applied || lowers_scale ? 0 : before + 1;
}

std::optional<Divergence> find_divergence(const StepRecord& record, int64_t skipped,
                                          const TrainConfig& train) {
  const std::optional<NonFinite> first = from_key(record.non_finite);
  if (is_of_state(first))
    return Divergence{Step(record.step.value - 1), record.step, 0, first, record};
  if (skipped < train.skipped_steps_max) return std::nullopt;
  return Divergence{Step(record.step.value - skipped + 1), record.step, train.skipped_steps_max,
                    first, record};
}

std::optional<Divergence> find_divergence_at_end(int64_t non_finite, const TrainingPosition& last) {
  const std::optional<NonFinite> first = from_key(non_finite);
  if (!first) return std::nullopt;
  StepRecord record;
  record.step = last.step;
  record.loss = last.validation_loss;
  record.loss_scale = last.loss_scale;
  return Divergence{last.step, last.step, 0, first, record};
}

std::string describe(const Divergence& divergence, const ModelShape& shape, Step checkpoint,
                     const std::string& file) {
  std::string text = "training diverged: ";
  if (divergence.limit == 0) {
    absl::StrAppend(&text, "the state at step ", divergence.first_step.value,
                    " is not finite: ", operator_name(*divergence.first, shape), ", ",
                    to_string(divergence.first->phase));
  } else {
    const int64_t steps = divergence.step.value - divergence.first_step.value + 1;
    absl::StrAppend(&text, steps, " skipped steps in a row, ", divergence.first_step.value, " to ",
                    divergence.step.value,
                    ", had a loss or gradients that are not finite (train.skipped_steps_max = ",
                    divergence.limit, ")");
    if (divergence.first) {
      absl::StrAppend(&text, ", first in ", words(*divergence.first, shape, divergence.step));
    }
  }
  if (checkpoint > Step(0)) {
    absl::StrAppend(&text, "; the newest good checkpoint is that of step ", checkpoint.value);
  } else {
    absl::StrAppend(&text, "; there is no good checkpoint yet");
  }
  return file.empty() ? text : absl::StrCat(text, "; record: ", file);
}

std::string to_json(const Divergence& divergence, const ModelShape& shape, Step checkpoint) {
  using Json = nlohmann::ordered_json;  // writes numbers that are not finite as null
  const StepRecord& record = divergence.record;
  Json first;
  if (divergence.first) {
    first["step"] = divergence.limit == 0 ? divergence.first_step.value : divergence.step.value;
    first["micro_batch"] =
        divergence.first->micro_batch >= 0 ? Json(divergence.first->micro_batch) : Json();
    first["operator"] = operator_name(*divergence.first, shape);
    first["phase"] = to_string(divergence.first->phase);
  }
  const Json json = {{"version", kFormatVersion},
                     {"reason", divergence.limit == 0 ? "state" : "skipped steps"},
                     {"first_step", divergence.first_step.value},
                     {"last_step", divergence.step.value},
                     {"skipped_steps_max", divergence.limit == 0 ? Json() : Json(divergence.limit)},
                     {"first_non_finite", first},
                     {"loss", record.loss},
                     {"gradient_norm", record.gradient_norm},
                     {"loss_scale", record.loss_scale},
                     {"learning_rate", record.learning_rate},
                     {"checkpoint", checkpoint > Step(0) ? Json(checkpoint.value) : Json()}};
  return json.dump(2) + "\n";
}

}  // namespace evermoe
