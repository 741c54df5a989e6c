#include "control/controller/controller_server.h"

#include <poll.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace evermoe {
namespace {

constexpr size_t kServerArrivedMax = 1 << 20;
// How long agents and the run may take to go after the end of the job.
constexpr absl::Duration kServerFarewellMax = absl::Seconds(5);
constexpr absl::Duration kServerSleepMax = absl::Seconds(1);

ControllerOptions core_options(const ControllerServerOptions& options) {
  ControllerOptions core = options.core;
  core.takes_over = options.relay.life > 0;
  return core;
}

Topology topology_of(const std::vector<int>& lanes) { return Topology(lanes, std::ssize(lanes)); }

}  // namespace

ControllerServer::ControllerServer(const ControllerServerOptions& options, Clock& clock)
    : clock_(clock),
      relay_(topology_of(options.lanes), core_options(options), options.relay, clock.now()),
      arrived_(kServerArrivedMax) {}

ControllerServer::~ControllerServer() = default;

absl::StatusOr<std::unique_ptr<ControllerServer>> ControllerServer::start(
    const ControllerServerOptions& options, Clock& clock) {
  std::unique_ptr<ControllerServer> server(new ControllerServer(options, clock));
  ASSIGN_OR_RETURN(server->listener_,
                   ControlListener::start(options.address, *server, options.keys));
  return server;
}

void ControllerServer::on_envelope(StreamNumber stream, Envelope envelope) noexcept {
  arrived_.put({stream, std::move(envelope), ""});
}

void ControllerServer::on_broken(StreamNumber stream, const std::string& why) noexcept {
  arrived_.put({stream, std::nullopt, why});
}

EndJob ControllerServer::run() {
  while (!relay_.end()) {
    wait_until(relay_.next_deadline());
    work_off();
    act(relay_.on_time(clock_.now()));
  }
  return *relay_.end();
}

void ControllerServer::see_off() {
  const absl::Duration deadline = clock_.now() + kServerFarewellMax;
  while (relay_.is_awaited() && clock_.now() < deadline) {
    wait_until(deadline);
    work_off();
  }
}

void ControllerServer::wait_until(absl::Duration deadline) {
  const absl::Duration left =
      std::clamp(deadline - clock_.now(), absl::ZeroDuration(), kServerSleepMax);
  pollfd waiting{arrived_.fd(), POLLIN, 0};
  // Rounded up, so that the deadline has passed after the wait.
  ::poll(&waiting, 1,
         static_cast<int>(absl::ToInt64Milliseconds(left + absl::Nanoseconds(999'999))));
}

// Everything that has come before the time is looked at: it may hold the sign of life of somebody
// who would else be late.
void ControllerServer::work_off() {
  for (const Arrived& one : arrived_.take()) {
    act(one.envelope ? relay_.on_envelope(clock_.now(), one.stream, *one.envelope)
                     : relay_.on_broken(clock_.now(), one.stream, one.why));
  }
}

// A Welcome leaves with the date, by which agents judge their clocks.
void ControllerServer::send(const SendEnvelope& send) {
  const auto* const welcome = std::get_if<Welcome>(&send.envelope.message);
  if (welcome == nullptr) {
    listener_->send(send.to, send.envelope);
    return;
  }
  Welcome dated = *welcome;
  dated.wall_clock = clock_.wall_now() - absl::UnixEpoch();
  listener_->send(send.to, {send.envelope.start, dated});
}

void ControllerServer::act(const std::vector<RelayAction>& actions) {
  for (const RelayAction& action : actions) {
    if (const auto* const send = std::get_if<SendEnvelope>(&action)) {
      this->send(*send);
    } else if (const auto* const cut = std::get_if<CutStream>(&action)) {
      listener_->close(cut->stream);
    } else {
      log_info(std::get<LogLine>(action).text);
    }
  }
}

}  // namespace evermoe
