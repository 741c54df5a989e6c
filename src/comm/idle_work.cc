#include "comm/idle_work.h"

#include <utility>

namespace evermoe {

absl::Status wait_for_message(Transport& transport, std::unique_ptr<TransportOperation> operation,
                              absl::Duration timeout, const IdleWork& idle_work) {
  if (idle_work) {
    while (!transport.done(*operation) && idle_work()) continue;
  }
  return transport.wait(std::move(operation), timeout);
}

}  // namespace evermoe
