// What a trainer's state is read from and written to: copies of operators, the position between two
// steps, and the state at which a run began.

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "train/step/trainer.h"

namespace evermoe {
namespace {

// The numbers of a position, in the machine's byte order: they are only compared and read by ranks
// of the same job.
struct PositionNumbers {
  int64_t step = 0;
  int64_t samples = 0;
  int64_t updates_applied = 0;
  double loss_scale = 1;
  int64_t loss_scale_good_steps = 0;
  int64_t skipped_in_row = 0;
  double validation_loss = -1;
  int64_t is_drained = 0;
  int64_t last_save = 0;    // where the interval of saves is tuned
  int64_t quarantined = 0;  // windows that follow
  int64_t trained_on = 0;   // numbers of that, behind them; and then the balance of experts
};

class CaptureUnderWay final : public CopyUnderWay {
 public:
  explicit CaptureUnderWay(const DeviceMoment& written) : copy_(written) {}
  CopyToHost& copy() { return copy_; }
  void wait() override { copy_.wait(); }

 private:
  CopyToHost copy_;
};

}  // namespace

absl::StatusOr<std::string> Trainer::resume(Communicator& world) {
  // Rank 0 removes unfinished saves below, so nobody may be writing any more.
  durable_.close();
  RETURN_IF_ERROR(annotate(world.barrier(), "resume"));
  DurableState::Loading loading;
  if (partial_) {
    loading = [&](const Manifest* manifest) { return partial_->restart(world, view_, manifest); };
  }
  ASSIGN_OR_RETURN(const Resumption resumption, durable_.resume(world, position_, loading));
  run_ = {view_, resumption.local ? resumption.local->origin : Fingerprint{}};
  for (const std::string& reason : resumption.skipped) log_warning("skipped checkpoint " + reason);
  shards_ = new_shards();  // experts are where the balance of the checkpoint has them
  RETURN_IF_ERROR(model_->derive_compute());
  is_drained_ = false;
  skipped_in_row_ = 0;
  non_finite_state_ = kAllFinite;
  if (pace_) pace_->begin(position_.step);
  base_ = began_ = saved_locally_ = position_.step > Step(0) ? position_.step : Step(-1);
  // What all have read from shared storage they have there, so nothing is left to do for a job that
  // had come to its end when its processes were lost. What they had on their own disks alone is
  // still to be saved.
  saved_ = agreed_ = resumption.local ? Step(-1) : base_;
  file_status_ = absl::OkStatus();
  RETURN_IF_ERROR(durable_.open(DurableState::Opening::kAlone, base_));
  RETURN_IF_ERROR(annotate(world.barrier(), "resume"));
  return partial_ && partial_->lost_now() > 0
             ? absl::StrCat(resumption.source, " (LOSSY: of what experts learned from, ",
                            partial_->lost_now(), " tokens are lost)")
             : resumption.source;
}

absl::Status Trainer::restore_base(Step base) {
  // Whoever goes back alone needs the logs of a strategy that keeps them.
  CHECK(!partial_) << "back to step " << base << " with checkpoints of a few experts";
  RETURN_IF_ERROR(durable_.restore(base, run_.own_saves, position_));
  shards_ = new_shards();
  is_drained_ = false;
  skipped_in_row_ = 0;
  if (pace_) pace_->begin(position_.step);
  base_ = began_ = base > Step(0) ? base : Step(-1);
  return model_->derive_compute();
}

void Trainer::forget_base() {
  base_ = Step(-1);
  if (durable_.is_open()) durable_.saver().unpin();
  durable_.local().unpin();
}

void Trainer::capture(int operator_index, SnapshotKind kind, int64_t offset,
                      std::span<std::byte> into) const {
  shards_.capture(operator_index, kind, offset, into);
}

std::unique_ptr<CopyUnderWay> Trainer::begin_capture(int operator_index, SnapshotKind kind,
                                                     int64_t offset, std::span<std::byte> into,
                                                     const WrittenState& written) const {
  if (written == nullptr) {
    capture(operator_index, kind, offset, into);
    return nullptr;
  }
  auto under_way =
      std::make_unique<CaptureUnderWay>(*static_cast<const DeviceMoment*>(written.get()));
  shards_.begin_capture(operator_index, kind, offset, into, under_way->copy());
  return under_way;
}

WrittenState Trainer::written() const {
  const at::Device device = environment_.device;
  return device.is_cpu() ? nullptr : std::make_shared<const DeviceMoment>(device);
}

std::shared_ptr<std::byte[]> Trainer::capture_memory(size_t bytes) const {
  return capture_memory_ ? capture_memory_->take(bytes) : StageTrainer::capture_memory(bytes);
}

void Trainer::restore(int operator_index, SnapshotKind kind, int64_t offset,
                      std::span<const std::byte> from) {
  CHECK_OK(guard([&] {
    shards_.restore(operator_index, kind, offset, from);
    return absl::OkStatus();
  }));
}

absl::Status Trainer::complete_restore(const std::vector<int>& operator_indices) {
  return guard([&]() -> absl::Status {
    for (OperatorState* const state : shards_.states_of(operator_indices))
      RETURN_IF_ERROR(state->gather_compute());
    return absl::OkStatus();
  });
}

RecordBytes Trainer::position() const {
  const std::vector<int64_t> trained_on = to_numbers(position_.trained_on);
  const PositionNumbers numbers{position_.step.value,
                                position_.samples,
                                position_.updates_applied,
                                position_.loss_scale,
                                position_.loss_scale_good_steps,
                                skipped_in_row_,
                                position_.validation_loss,
                                is_drained_ ? 1 : 0,
                                pace_ ? pace_->last().value : 0,
                                std::ssize(position_.quarantined_windows),
                                std::ssize(trained_on)};
  std::vector<int64_t> more = position_.quarantined_windows;
  more.insert(more.end(), trained_on.begin(), trained_on.end());
  const std::vector<int64_t> balance = to_numbers(position_.experts);
  more.insert(more.end(), balance.begin(), balance.end());
  RecordBytes bytes(sizeof(numbers) + more.size() * sizeof(int64_t));
  std::memcpy(bytes.data(), &numbers, sizeof(numbers));
  if (!more.empty())
    std::memcpy(bytes.data() + sizeof(numbers), more.data(), more.size() * sizeof(int64_t));
  return bytes;
}

absl::Status Trainer::set_position(const RecordBytes& position) {
  PositionNumbers numbers;
  const bool is_whole = position.size() >= sizeof(numbers) &&
                        (position.size() - sizeof(numbers)) % sizeof(int64_t) == 0;
  if (!is_whole) return Corrupt("not a position of this trainer");
  std::memcpy(&numbers, position.data(), sizeof(numbers));
  std::vector<int64_t> more((position.size() - sizeof(numbers)) / sizeof(int64_t));
  if (!more.empty())
    std::memcpy(more.data(), position.data() + sizeof(numbers), more.size() * sizeof(int64_t));
  std::span<const int64_t> left = more;
  const auto take = [&left](int64_t count) -> std::optional<std::span<const int64_t>> {
    if (count < 0 || count > std::ssize(left)) return std::nullopt;
    const auto taken = left.first(static_cast<size_t>(count));
    left = left.subspan(taken.size());
    return taken;
  };
  const auto windows = take(numbers.quarantined);
  const auto trained = windows ? take(numbers.trained_on) : std::nullopt;
  auto trained_on = trained ? trained_on_from(*trained) : std::nullopt;
  if (!trained_on) return Corrupt("not a position of this trainer");
  RETURN_IF_ERROR(set_balance(left));
  position_.quarantined_windows.assign(windows->begin(), windows->end());
  position_.trained_on = *std::move(trained_on);
  position_.step = Step(numbers.step);
  position_.samples = numbers.samples;
  position_.updates_applied = numbers.updates_applied;
  position_.loss_scale = numbers.loss_scale;
  position_.loss_scale_good_steps = numbers.loss_scale_good_steps;
  skipped_in_row_ = numbers.skipped_in_row;
  position_.validation_loss = numbers.validation_loss;
  is_drained_ = numbers.is_drained != 0;
  if (pace_) pace_->begin(Step(numbers.last_save));
  return absl::OkStatus();
}

}  // namespace evermoe
