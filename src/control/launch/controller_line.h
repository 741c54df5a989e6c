// The line of a run to its controller: called again until one answers, kept alive by signs of life,
// and listened to for its silence.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "control/controller/stall_adjusted_clock.h"
#include "control/controller/stalls/lateness.h"
#include "control/wire/control_call.h"
#include "control/wire/mailbox.h"
#include "env/clock.h"

namespace evermoe {

struct ControllerLineOptions {
  std::string address;                  // of every controller
  std::shared_ptr<const JobKeys> keys;  // if that is of a network
  absl::Duration beat;                  // between two signs of life
  absl::Duration own_standstill;        // StallAdjustedClock
  absl::Duration attached_max;          // silence after which a controller that answered is hung
  absl::Duration start_max;             // the same for one that has just been started
};

class ControllerLine final : private StreamEvents {
 public:
  // `clock` outlives it.
  ControllerLine(ControllerLineOptions options, Clock& clock)
      : options_(std::move(options)),
        clock_(clock),
        arrived_(kArrivedMax),
        time_(clock.now(), options_.own_standstill),
        lateness_(options_.own_standstill) {}
  ~ControllerLine() override { call_.reset(); }

  // Readable while something has come.
  int fd() const { return arrived_.fd(); }
  // Hands over what has come, in order. A Welcome attaches.
  void take(const std::function<void(const ControlMessage&)>& hear);
  // Calls, and gives signs of life.
  void look_after();
  // Dropped unless a controller is attached.
  void send(ControlMessage message);
  // Nothing more is heard of the controller. Unless it is looked after again, for good.
  void hang_up() {
    call_.reset();
    is_attached_ = false;
    retry_at_ = clock_.now() + kRetry;
  }

  bool is_attached() const { return is_attached_; }
  // Nothing is sent any more before the next Welcome.
  void detach() { is_attached_ = false; }
  // A controller comes up, or is ended for its silence: it has its time from now on.
  void give_time() { heard_ = time_.at(clock_.now()); }
  // The silence after which it counts as hung, if it is over.
  std::optional<absl::Duration> silence();

 private:
  static constexpr size_t kArrivedMax = 1 << 20;
  static constexpr absl::Duration kRetry = absl::Milliseconds(50);
  struct Arrived {
    StreamNumber stream;
    std::optional<Envelope> envelope;  // nullopt: broken
  };
  void on_envelope(StreamNumber stream, Envelope envelope) noexcept override {
    arrived_.put({stream, std::move(envelope)});
  }
  void on_broken(StreamNumber stream, const std::string&) noexcept override {
    arrived_.put({stream, std::nullopt});
  }

  const ControllerLineOptions options_;
  Clock& clock_;
  Mailbox<Arrived> arrived_;
  StallAdjustedClock time_;
  Lateness lateness_;     // of this process
  absl::Duration heard_;  // from the controller, or when it was given its time; by time_
  absl::Duration retry_at_ = -absl::InfiniteDuration();
  absl::Duration next_beat_ = -absl::InfiniteDuration();
  bool is_attached_ = false;
  int64_t calls_ = 0;
  std::unique_ptr<ControlCall> call_;
};

}  // namespace evermoe
