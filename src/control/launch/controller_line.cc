#include "control/launch/controller_line.h"

namespace evermoe {

void ControllerLine::take(const std::function<void(const ControlMessage&)>& hear) {
  for (const Arrived& one : arrived_.take()) {
    if (call_ == nullptr || one.stream != StreamNumber(calls_)) continue;
    give_time();
    if (one.envelope) {
      if (std::holds_alternative<Welcome>(one.envelope->message)) is_attached_ = true;
      hear(one.envelope->message);
    } else {
      call_.reset();
      is_attached_ = false;
      retry_at_ = clock_.now() + kRetry;
    }
  }
}

void ControllerLine::look_after() {
  const absl::Duration now = clock_.now();
  if (call_ == nullptr && now >= retry_at_) {
    call_.reset(new ControlCall(options_.address, StreamNumber(++calls_), *this, options_.keys));
    call_->send({0, RunHello{}});
  }
  if (!is_attached_ || now < next_beat_) return;
  if (next_beat_ > -absl::InfiniteDuration()) lateness_.note(now, now - next_beat_);
  next_beat_ = now + options_.beat;
  call_->send({0, Beat{}});
}

void ControllerLine::send(ControlMessage message) {
  if (is_attached_) call_->send({0, std::move(message)});
}

std::optional<absl::Duration> ControllerLine::silence() {
  const absl::Duration limit = is_attached_ ? options_.attached_max : options_.start_max;
  const absl::Duration patience = limit + lateness_.allowance(clock_.now(), limit);
  return time_.at(clock_.now()) >= heard_ + patience ? std::optional(patience) : std::nullopt;
}

}  // namespace evermoe
