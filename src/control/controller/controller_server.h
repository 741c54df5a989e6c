// The controller of a protected job as a process: control/controller/controller_core.h behind a
// listener.
//
// It may die and be started again at the same address while agents and workers live: they come back
// to it and register, and the job goes on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "control/controller/relay/controller_relay.h"
#include "control/wire/control_listener.h"
#include "control/wire/mailbox.h"
#include "env/clock.h"

namespace evermoe {

struct ControllerServerOptions {
  std::string address = "127.0.0.1:0";  // ControlListener::start()
  std::shared_ptr<const JobKeys> keys;  // likewise
  std::vector<int> lanes = {1};         // of each stage
  ControllerOptions core;               // takes_over is set for every life but the first
  RelayOptions relay;
};

class ControllerServer final : private StreamEvents {
 public:
  // `clock` outlives it.
  static absl::StatusOr<std::unique_ptr<ControllerServer>> start(
      const ControllerServerOptions& options, Clock& clock);
  ~ControllerServer() override;

  const std::string& address() const { return listener_->address(); }
  // Returns when the job has ended.
  EndJob run();
  // Then: returns when everybody has been told and has gone, or had the time to.
  void see_off();

 private:
  struct Arrived {
    StreamNumber stream;
    std::optional<Envelope> envelope;  // nullopt: broken
    std::string why;
  };
  ControllerServer(const ControllerServerOptions& options, Clock& clock);
  void on_envelope(StreamNumber stream, Envelope envelope) noexcept override;
  void on_broken(StreamNumber stream, const std::string& why) noexcept override;
  void wait_until(absl::Duration deadline);
  void work_off();
  void act(const std::vector<RelayAction>& actions);
  void send(const SendEnvelope& send);

  Clock& clock_;
  ControllerRelay relay_;
  Mailbox<Arrived> arrived_;
  std::unique_ptr<ControlListener> listener_;  // last: its threads use the others
};

}  // namespace evermoe
