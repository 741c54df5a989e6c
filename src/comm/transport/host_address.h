// Transport addresses: "kind:machine:detail". The machine part tells whether two processes share a
// kernel.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace evermoe {

struct HostAddress {
  std::string kind;
  std::string machine;
  std::string detail;
};

// The host name with the kernel's boot id and network namespace: equal for two processes exactly if
// they can reach each other through abstract sockets. As it was when first asked for: tables name
// it for each rank, and the system need not be asked thousands of times when a view opens.
const std::string& this_machine();

std::string to_string(const HostAddress& address);

// InvalidInput if `text` is no address.
absl::StatusOr<HostAddress> parse_address(const std::string& text);

}  // namespace evermoe
