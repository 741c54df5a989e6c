// What the trainer has on disk: saves that are due, and the last one, at the end.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "env/clock.h"
#include "train/step/trainer.h"

namespace evermoe {
namespace {

// When everything but the last save is done the disk is asked so often again, after a pause that
// doubles up to a quarter of run.deadline_seconds: for two minutes as it is by default.
constexpr int kCloseTriesMax = 13;
constexpr absl::Duration kClosePauseMin = absl::Milliseconds(200);

absl::Status unless_late(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) ? absl::OkStatus() : status;
}

}  // namespace

absl::Status Trainer::open_saver() {
  if (durable_.is_open()) return absl::OkStatus();
  return durable_.open(DurableState::Opening::kAmong, base_);
}

Step Trainer::prepared() const {
  return durable_.is_open() ? durable_.saver().prepared() : Step(-1);
}

absl::Status Trainer::note_prepared(Step prepared) {
  if (prepared <= agreed_) return absl::OkStatus();
  agreed_ = prepared;
  if (environment_.transport->rank() != Rank(0)) return absl::OkStatus();
  return durable_.outlive(prepared, publish(prepared));
}

absl::Status Trainer::publish(Step prepared) {
  RETURN_IF_ERROR(open_saver());
  durable_.publish(prepared);
  return options_.waits_for_files ? durable_.saver().wait_published(absl::InfiniteDuration())
                                  : absl::OkStatus();
}

absl::Status Trainer::note_prepared_locally(Step prepared) {
  if (prepared <= durable_.local().committed()) return absl::OkStatus();
  return durable_.outlive_locally(prepared,
                                  durable_.local().commit(prepared, options_.waits_for_files));
}

bool Trainer::is_saved_locally(Step step) const {
  const int64_t every = model_->config().checkpoint.local_every_steps;
  return durable_.local().is_used() && every > 0 && step.value % every == 0;
}

bool Trainer::is_saved(Step step) const { return is_shared(step) || is_saved_locally(step); }

bool Trainer::is_shared(Step step) const {
  if (pace_) return pace_->is_due(step) || is_finished();
  const int64_t every = model_->config().checkpoint.every_steps;
  return (every > 0 && step.value % every == 0) || is_finished();
}

absl::Status Trainer::save() {
  if (is_saved_locally(position_.step)) {
    RETURN_IF_ERROR(save_locally());
    if (!is_shared(position_.step)) return absl::OkStatus();
  }
  const absl::Duration began = real_clock().now();
  const Step before = saved_;
  RETURN_IF_ERROR(durable_.look_after_saves());
  RETURN_IF_ERROR(durable_.outlive(position_.step, begin_save()));
  // The last one comes when it may, also while the one before is still being written.
  if (pace_ && saved_ != before && !is_finished())
    pace_->on_save_begun(began, real_clock().now() - began);
  return absl::OkStatus();
}

void Trainer::follow_save() {
  if (!pace_->is_saving() || durable_.saver().is_saving()) return;
  const Step on_disk = std::max(prepared(), published());
  pace_->on_save_ended(real_clock().now(), on_disk >= saved_);
}

absl::Status Trainer::begin_save() {
  // Files that all ranks have are being published: they must not change. And the bits would be the
  // same.
  if (position_.step <= std::max(saved_, agreed_)) return absl::OkStatus();
  if (!is_state_sound()) return absl::OkStatus();  // the next verdict ends the run
  RETURN_IF_ERROR(open_saver());
  RETURN_IF_ERROR(save_state());
  saved_ = position_.step;
  return options_.waits_for_files ? durable_.saver().wait_prepared(absl::InfiniteDuration())
                                  : absl::OkStatus();
}

absl::Status Trainer::save_locally() {
  if (position_.step <= saved_locally_ || !is_state_sound()) return absl::OkStatus();
  RETURN_IF_ERROR(durable_.look_after_saves());
  RETURN_IF_ERROR(durable_.save_locally(position_, run_.view, base_, options_.waits_for_files));
  saved_locally_ = position_.step;
  return absl::OkStatus();
}

absl::Status Trainer::save_state() {
  if (!partial_) {
    return durable_.save(position_,
                         pace_ ? DurableState::Copying::kBehind : DurableState::Copying::kNow);
  }
  // The last one has everything, whatever is under way.
  if (is_finished()) {
    return durable_.save(partial_->describe(position_), DurableState::Copying::kNow,
                         partial_->describe_whole(position_.step));
  }
  RETURN_IF_ERROR(guard([&] {
    partial_->take(position_);
    return absl::OkStatus();
  }));
  return save_waiting();
}

absl::Status Trainer::save_waiting() {
  std::optional<PartialCheckpoints::Save> save = partial_->begin();
  if (!save) return absl::OkStatus();
  RETURN_IF_ERROR(open_saver());
  RETURN_IF_ERROR(durable_.save_some(std::move(save->position), std::move(save->shards),
                                     std::move(save->partial)));
  return options_.waits_for_files ? durable_.saver().wait_prepared(absl::InfiniteDuration())
                                  : absl::OkStatus();
}

bool Trainer::is_state_sound() {
  non_finite_state_ = model_->non_finite_state();
  if (non_finite_state_ == kAllFinite && !std::isfinite(position_.validation_loss)) {
    const auto operators = static_cast<int32_t>(model_operators(model_->config().model).size());
    non_finite_state_ = to_key({NonFinitePhase::kValidation, -1, operators - 1});
  }
  return non_finite_state_ == kAllFinite;
}

absl::Status Trainer::end_diverged(const Divergence& divergence) const {
  const ModelShape& shape = model_->config().model;
  const Step checkpoint = std::max(agreed_, began_);
  const std::string& file = environment_.divergence_file;
  if (!file.empty()) {
    // Every rank writes the same: whichever ends first ends the job.
    const std::string own = absl::StrCat(file, ".", environment_.transport->rank().value);
    RETURN_IF_ERROR(
        write_file_synced(*environment_.files, own, to_json(divergence, shape, checkpoint)));
    RETURN_IF_ERROR(environment_.files->rename(own, file));
  }
  return Hopeless(describe(divergence, shape, checkpoint, file));
}

absl::Status Trainer::finish_files(absl::Duration slice) {
  RETURN_IF_ERROR(begin_save());
  RETURN_IF_ERROR(open_saver());
  CheckpointSaver& saver = durable_.saver();
  if (const absl::Status written = unless_late(saver.wait_prepared(slice)); !written.ok()) {
    saved_ = Step(position_.step.value - 1);
    return written;
  }
  if (environment_.transport->rank() != Rank(0)) return absl::OkStatus();
  if (agreed_ >= position_.step && saver.published() < agreed_) saver.publish(agreed_);
  const absl::Status published = unless_late(saver.wait_published(slice));
  // What is on disk is there, though what it replaces may not be removed.
  return saver.published() >= position_.step ? durable_.outlive(position_.step, published)
                                             : published;
}

absl::StatusOr<Findings> Trainer::close() {
  RETURN_IF_ERROR(std::exchange(file_status_, absl::OkStatus()));
  // The others wait for this rank meanwhile: a slow disk must not look like a hung process.
  const absl::Duration slice = absl::Seconds(model_->config().run.deadline_seconds) / 4;
  if (const absl::Status refused = finish_files(slice); !refused.ok()) {
    if (++close_failures_ > kCloseTriesMax)
      return Hopeless(absl::StrCat("the last state cannot be saved: ", refused.message()));
    RETURN_IF_ERROR(durable_.outlive(position_.step, refused));
    const absl::Duration pause = kClosePauseMin * (1 << std::min(close_failures_ - 1, 10));
    real_clock().sleep_until(real_clock().now() + std::min(slice, pause));
  }
  StepFindings findings;
  findings.non_finite = non_finite_state_;
  findings.prepared = std::max(prepared(), agreed_);
  if (durable_.is_open() && environment_.transport->rank() == Rank(0))
    findings.published = durable_.saver().published();
  return as_findings(std::move(findings));
}

bool Trainer::is_closed(const Findings& combined) {
  const StepFindings findings = from_findings(combined, moe_layers());
  if (const auto divergence = find_divergence_at_end(findings.non_finite, position_)) {
    file_status_ = end_diverged(*divergence);
    return false;
  }
  file_status_.Update(note_prepared(findings.prepared));
  return findings.published >= position_.step;
}

}  // namespace evermoe
