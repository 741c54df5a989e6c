#include "control/controller/relay/relay_outbox.h"

namespace evermoe {

void RelayOutbox::tell_run(ControlMessage message) {
  bool is_told = false;
  for (const auto& [number, peer] : peers_) {
    if (peer.kind != PeerKind::kRun) continue;
    send(number, message);
    is_told = true;
  }
  if (!is_told) history_.keep(std::move(message));
}

}  // namespace evermoe
