#include "train/step/examiner.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"

namespace evermoe {

Examiner::Examiner(const TrainerEnvironment& environment, const ModelShape& shape, std::string role)
    : environment_(environment), shape_(shape), role_(std::move(role)) {
  const auto steps = environment_.files->list(environment_.forensics_directory);
  if (!steps.ok()) return;  // nothing was ever examined
  for (const std::string& name : *steps) {
    constexpr std::string_view kPrefix = "step-";
    int64_t step = 0;
    if (!name.starts_with(kPrefix) || !absl::SimpleAtoi(name.substr(kPrefix.size()), &step))
      continue;
    const std::string path = file(Step(step));
    if (!environment_.files->exists(path)) continue;
    const auto text = read_file(*environment_.files, path, kExaminationBytesMax);
    const auto examination = text.ok() ? parse_examination(*text, path, shape_)
                                       : absl::StatusOr<Examination>(text.status());
    if (examination.ok())
      own_.emplace(Step(step), *examination);
    else
      log_warning(std::string(examination.status().message()));
  }
}

std::string Examiner::folder(Step step) const {
  return absl::StrCat(environment_.forensics_directory, "/step-", step.value);
}

std::string Examiner::file(Step step) const {
  return absl::StrCat(folder(step), "/", role_, ".json");
}

bool Examiner::has_others(Step step) const {
  const auto names = environment_.files->list(folder(step));
  return names.ok() && std::ranges::any_of(*names, [&](const std::string& name) {
           return name.ends_with(".json") && name != absl::StrCat(role_, ".json");
         });
}

absl::Status Examiner::write(const Examination& examination) const {
  const std::string path = file(examination.step);
  RETURN_IF_ERROR(environment_.files->create_directories(folder(examination.step)));
  RETURN_IF_ERROR(
      write_file_synced(*environment_.files, path + ".new", to_json(examination, shape_)));
  RETURN_IF_ERROR(environment_.files->rename(path + ".new", path));
  return environment_.files->sync_directory(folder(examination.step));
}

absl::Status Examiner::on_origin(Examination met, int64_t skipped_in_row, bool lowers_scale) {
  const auto own = own_.find(met.step);
  OriginAsked asked{.rank = met.rank,
                    .own = own == own_.end() ? std::nullopt : std::optional(own->second),
                    .has_others = has_others(met.step),
                    .skipped_in_row = skipped_in_row,
                    .lowers_scale = lowers_scale};
  switch (decide_origin(asked)) {
    case OriginDecision::kPass: return absl::OkStatus();
    case OriginDecision::kReproduced:
      reproduced_ = met.step;
      conclude(own->second, /*is_reproduced=*/true);
      return absl::OkStatus();
    case OriginDecision::kAttempt: break;
  }
  // Where it cannot be written down no successor would know, and end in its turn.
  if (const absl::Status written = write(met); !written.ok()) {
    log_warning(absl::StrCat("a number that is not finite is not examined: ", written.message()));
    return absl::OkStatus();
  }
  return Doubtful(describe(met, shape_));
}

int32_t Examiner::reproduced_micro_batch(Step step) const {
  return step == reproduced_ ? own_.at(step).first.micro_batch : -1;
}

void Examiner::on_verdict(const StepRecord& record) {
  const auto own = own_.find(record.step);
  if (own == own_.end() || own->second.second || !record.applied) return;
  conclude(own->second, /*is_reproduced=*/false);
}

void Examiner::conclude(Examination examination, bool is_reproduced) {
  examination.second = {environment_.node, is_reproduced};
  if (const absl::Status written = write(examination); !written.ok())
    log_warning(std::string(written.message()));
  log_warning(describe(examination, shape_));
  if (environment_.examined) {
    environment_.examined(examination.step, examination.node, is_reproduced,
                          describe(examination, shape_));
  }
  own_.insert_or_assign(examination.step, std::move(examination));
}

}  // namespace evermoe
