// Trainer::resume: all ranks agree on the newest checkpoint that every one of them can read.

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "config/identity.h"
#include "train/state_transfer.h"
#include "train/trainer.h"

namespace evermoe {
namespace {

constexpr size_t kAgreedTextBytesMax = 64 << 10;
constexpr size_t kReasonBytesMax = 512;

// Rank 0's text, on every rank; cut at kAgreedTextBytesMax.
absl::StatusOr<std::string> broadcast_text(Communicator& world, const std::string& own) {
  std::vector<std::byte> buffer(kAgreedTextBytesMax);
  std::memcpy(buffer.data(), own.data(), std::min(own.size(), buffer.size() - 1));
  RETURN_IF_ERROR(world.broadcast(0, buffer));
  return std::string(reinterpret_cast<const char*>(buffer.data()));
}

// The first non-empty text by rank, on every rank; each cut at kReasonBytesMax.
absl::StatusOr<std::string> first_reason(Communicator& world, const std::string& own) {
  std::vector<std::byte> all(kReasonBytesMax * world.size());
  std::vector<int64_t> begins;
  for (int r = 0; r <= world.size(); ++r) begins.push_back(static_cast<int64_t>(kReasonBytesMax) * r);
  std::memcpy(all.data() + begins[world.index()], own.data(), std::min(own.size(), kReasonBytesMax - 1));
  RETURN_IF_ERROR(world.all_gather(all, begins));
  for (int r = 0; r < world.size(); ++r) {
    const std::string reason(reinterpret_cast<const char*>(all.data() + begins[r]));
    if (!reason.empty()) return reason;
  }
  return std::string("unknown reason");
}

absl::Status compare_identity(const TrainingPosition& position, const std::string& own, const std::string& path) {
  const std::string difference = identity_difference(position.model_identity, own);
  if (difference.empty()) return absl::OkStatus();
  return InvalidInput(absl::StrCat(path, " is of another model or other data: ", difference,
                                   "; use the same values, or another --out"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> Trainer::agreed_candidates() {
  std::string own;
  if (world_->index() == 0) {
    const auto found = list_checkpoints(*environment_.files, environment_.checkpoint_directory);
    if (found.ok()) own = absl::StrJoin(*found, "\n");
  }
  ASSIGN_OR_RETURN(const std::string agreed, broadcast_text(*world_, own));
  if (agreed.empty()) return std::vector<std::string>();
  return std::vector<std::string>(absl::StrSplit(agreed, '\n'));
}

absl::Status Trainer::restore(const std::string& path) {
  ASSIGN_OR_RETURN(const auto checkpoint, CheckpointReader::open(*environment_.files, path));
  RETURN_IF_ERROR(compare_identity(checkpoint->position(), identity(), path));
  RETURN_IF_ERROR(guard([&] { return load_shards(*checkpoint, operators_); }));
  position_ = checkpoint->position();
  if (config_.train.precision == Precision::kFp16 && position_.loss_scale < 1) {
    position_.loss_scale = config_.train.initial_loss_scale;
  }
  return absl::OkStatus();
}

absl::Status Trainer::restore_on_all_ranks(const std::string& path) {
  const absl::Status own = restore(path);
  // 0: this rank can use it; 1: damaged, try an older one; 2: the user has to decide.
  int64_t worst[] = {own.ok() ? 0 : absl::IsInvalidArgument(own) ? 2 : 1};
  RETURN_IF_ERROR(annotate(world_->all_reduce<int64_t>(worst, ReduceOp::kMax), "resume"));
  if (worst[0] == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string reason, first_reason(*world_, std::string(own.message())));
  return worst[0] == 2 ? InvalidInput(reason) : Corrupt(reason);
}

absl::StatusOr<Resumption> Trainer::resume() {
  Resumption resumption;
  ASSIGN_OR_RETURN(const std::vector<std::string> candidates, agreed_candidates());
  bool restored = false;
  for (const std::string& path : candidates) {
    const absl::Status status = restore_on_all_ranks(path);
    if (status.ok()) {
      resumption.source = path;
      restored = true;
      break;
    }
    if (!absl::IsDataLoss(status)) return status;
    resumption.skipped.push_back(absl::StrCat(path, ": ", std::string(status.message())));
  }
  if (!restored) {
    resumption.source = "initial state";
    for (OperatorState* state : operators_) state->initialise(config_.train.seed);
    position_ = TrainingPosition();
    if (config_.train.precision == Precision::kFp16) position_.loss_scale = config_.train.initial_loss_scale;
  }
  RETURN_IF_ERROR(guard([&] { return gather_compute(); }));
  resumption.step = position_.step;
  last_save_ = restored ? position_.step : Step(-1);
  return resumption;
}

}  // namespace evermoe
