// How a trainer comes to other lanes.

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "train/step/trainer.h"

namespace evermoe {

void Trainer::take_membership(const Membership& membership) {
  if (membership == model_->membership()) return;
  CHECK(!partial_) << "checkpoints of a few experts are laid out for everybody";
  CHECK_OK(guard([&] {
    model_->take_membership(membership, view_);
    return absl::OkStatus();
  }));
  shards_ = new_shards();
}

void Trainer::rest_at(Step step) {
  CHECK(model_->rests()) << "a role that trains";
  position_.step = step;
}

absl::Status Trainer::change_membership(const Membership& to, View view, RecordBytes& position) {
  view_ = std::max(view_, view);
  CHECK(!partial_) << "checkpoints of a few experts are laid out for everybody";
  // A save that is still being copied has this state.
  for (const OperatorState* const state : model_->operators())
    RETURN_IF_ERROR(durable_.wait_copied(*state));
  RETURN_IF_ERROR(model_->change_membership(to, view_, position_.step, position));
  shards_ = new_shards();
  expert_loads_ = {};
  return absl::OkStatus();
}

}  // namespace evermoe
