#include "control/controller/relay/relay_outbox.h"

namespace evermoe {

void RelayOutbox::tell_run(ControlMessage message) {
  for (const StreamNumber run : peers_.runs()) send(run, message);
  if (peers_.runs().empty()) history_.keep(std::move(message));
}

}  // namespace evermoe
