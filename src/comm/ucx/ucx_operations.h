// The sends and receives of a channel's callers, from their start to their end.
//
// Not synchronised: the mutex of the channel guards it.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "comm/ucx/ucx_flights.h"
#include "comm/ucx/ucx_peers.h"

namespace evermoe {

class UcxOperations final : private FlightOwner {
 public:
  UcxOperations(UcxFlights& flights, UcxPeers& peers) : flights_(flights), peers_(peers) {}

  // The operation is finished when UCX is done with it, or by what is below; at once if its peer is
  // lost. What a lost peer has sent before is still delivered.
  void start_send(PendingOperation& send, UcxPeer& to);
  void start_receive(PendingOperation& receive, UcxPeer& from);

  // Forgets an unfinished operation.
  void let_go(const PendingOperation& operation) { flights_.let_go(operation); }
  // Finish what is under way with `reason`: of views up to `view`, with one peer, all.
  void revoke(GroupRange groups, View view, const absl::Status& reason);
  void fail(const UcxPeer& peer, const absl::Status& reason);
  void fail_all(const absl::Status& reason);

 private:
  void landed(Flight& flight, ucs_status_t status) override;

  UcxFlights& flights_;
  UcxPeers& peers_;
};

}  // namespace evermoe
