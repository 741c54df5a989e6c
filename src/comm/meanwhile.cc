#include "comm/meanwhile.h"

#include <utility>

namespace evermoe {

absl::Status wait_for_message(Transport& transport, std::unique_ptr<TransportOperation> operation,
                              absl::Duration timeout, const Meanwhile& meanwhile) {
  if (meanwhile) {
    while (!transport.done(*operation) && meanwhile()) continue;
  }
  return transport.wait(std::move(operation), timeout);
}

}  // namespace evermoe
