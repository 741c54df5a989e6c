// The writing side of the durable store.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/format/checkpoint_names.h"
#include "config/identity.h"
#include "train/state/durable_state.h"
#include "train/state/state_transfer.h"

namespace evermoe {

Step DurableState::newest_visible() const {
  const auto found = list_checkpoints(*environment_.files, environment_.checkpoint_directory);
  if (!found.ok() || found->empty()) return Step(-1);
  return parse_step_directory(base_name(found->front())).value_or(Step(-1));
}

SaverOptions DurableState::saver_options() const {
  const JobConfig& config = model_.config();
  SaverOptions options;
  options.directory = environment_.checkpoint_directory;
  options.rank = environment_.transport->rank().value;
  options.world_size = model_.topology().world_size();
  options.state_types = model_.types().stored.state;
  options.compute_type = model_.types().stored.compute;
  options.topology = model_.membership().lanes().to_string();
  options.keep_newest = config.checkpoint.keep_newest;
  options.keep_every_steps = config.checkpoint.keep_every_steps;
  options.keep_best = config.checkpoint.keep_best;
  options.term = environment_.term;
  options.may_write = environment_.may_write;
  options.may_publish = environment_.may_publish;
  return options;
}

absl::Status DurableState::open(Opening opening, Step pinned) {
  SaverOptions options = saver_options();
  options.pinned = pinned;
  options.joins_others = opening == Opening::kAmong;
  RETURN_IF_ERROR(open_locally(pinned, pinned));
  ASSIGN_OR_RETURN(saver_, CheckpointSaver::open(*environment_.files, options));
  refused_ = Step(-1);
  publish_requested_ = Step(-1);
  // A predecessor may have died while it published the newest one: that is done again. Older ones,
  // of which the records of a catch-up tell, are history.
  if (opening == Opening::kAmong && is_publisher())
    publish_requested_ = Step(newest_visible().value - 1);
  return absl::OkStatus();
}

absl::Status DurableState::open_locally(Step told, Step pinned) {
  if (local_.is_open()) return absl::OkStatus();
  return outlive_locally(told, local_.open(saver_options(), pinned));
}

absl::Status DurableState::tell(Step step, const absl::Status& status) const {
  const bool is_refused_by_disk =
      !is_hopeless(status) && !is_contradiction(status) && !absl::IsInvalidArgument(status);
  if (status.ok() || !is_refused_by_disk) return status;
  log_warning(absl::StrCat("checkpoint of step ", step.value, ": ", status.message()));
  if (environment_.save_failed) environment_.save_failed(step, status);
  return absl::OkStatus();
}

absl::Status DurableState::outlive(Step step, const absl::Status& status) {
  if (status.ok()) return status;
  RETURN_IF_ERROR(tell(step, status));
  // What is published stays so, whatever its cleaning up met.
  if (!is_open() || saver_->published() < step) refused_ = std::max(refused_, step);
  return absl::OkStatus();
}

absl::Status DurableState::outlive_locally(Step step, const absl::Status& status) {
  return status.ok() ? status : tell(step, status);
}

// An unfinished save whose state is gone: on a full disk it would keep the next one from its space.
void DurableState::discard(Step step) const {
  const std::string folder =
      join_path(environment_.checkpoint_directory, step_directory_name(step)) + kTemporarySuffix;
  (void)remove_tree(*environment_.files, folder);
}

absl::Status DurableState::look_after_saves() {
  RETURN_IF_ERROR(outlive_locally(local_.saving(), local_.look_after_saves()));
  if (!is_open()) return absl::OkStatus();
  const auto has_failed = [](const absl::Status& status) {
    return !status.ok() && !absl::IsDeadlineExceeded(status);
  };
  if (const absl::Status written = saver_->wait_prepared(absl::ZeroDuration());
      has_failed(written)) {
    discard(saving_);
    RETURN_IF_ERROR(outlive(saving_, written));
  }
  if (!is_publisher()) return absl::OkStatus();
  const absl::Status published = saver_->wait_published(absl::ZeroDuration());
  if (!has_failed(published)) return absl::OkStatus();
  if (saver_->published() < publish_requested_) discard(publish_requested_);
  return outlive(publish_requested_, published);
}

absl::Status DurableState::save(TrainingPosition position, Copying copying, PartialSave partial) {
  saving_ = position.step;
  std::vector<ShardSource> shards = shard_sources(model_.operators());
  return copying == Copying::kNow
             ? saver_->begin(complete(std::move(position)), shards, std::move(partial))
             : saver_->begin_behind(complete(std::move(position)), std::move(shards),
                                    std::move(partial));
}

absl::Status DurableState::save_some(TrainingPosition position, std::vector<ShardSource> shards,
                                     PartialSave partial) {
  saving_ = position.step;
  return saver_->begin_behind(complete(std::move(position)), std::move(shards), std::move(partial));
}

absl::Status DurableState::save_locally(TrainingPosition position, View run, Step pinned,
                                        bool waits) {
  const Step step = position.step;
  RETURN_IF_ERROR(open_locally(step, pinned));
  if (!local_.is_open()) return absl::OkStatus();
  return outlive_locally(step, local_.save(complete(std::move(position)), run, waits));
}

TrainingPosition DurableState::complete(TrainingPosition position) const {
  position.model_identity = identity();
  position.configuration = to_toml(model_.config());
  return position;
}

absl::Status DurableState::wait_copied(const OperatorState& state) {
  return is_open() ? saver_->wait_copied(state.spec().name) : absl::OkStatus();
}

void DurableState::publish(Step prepared) {
  if (prepared <= publish_requested_) return;
  publish_requested_ = prepared;
  if (is_publisher()) saver_->publish(prepared);
}

}  // namespace evermoe
