#include "comm/transport/transport_listener.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/limits.h"

namespace evermoe {

absl::Status check_ranks(int size) {
  if (size <= kJobSeatsMax) return absl::OkStatus();
  return InvalidInput(absl::StrCat("a job of ", size, " seats, allowed: at most ", kJobSeatsMax));
}

absl::StatusOr<std::unique_ptr<Transport>> TransportListener::connect(
    Rank rank, const std::vector<std::string>& addresses) {
  ASSIGN_OR_RETURN(auto transport, open(rank, static_cast<int>(addresses.size()), View(0)));
  std::vector<PeerAddress> table;
  for (const std::string& other : addresses) table.push_back({other, View(0)});
  RETURN_IF_ERROR(transport->set_peers(table));
  return transport;
}

}  // namespace evermoe
