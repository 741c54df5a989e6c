// Receives the service messages of a channel. They are not announced by a receive: they are looked
// for in UCX's queue of unexpected messages, and left there while the box has no room for them.
// Large ones stay with the sender meanwhile; small ones, which UCX sends at once, take its memory
// here.
//
// Not synchronised: the mutex of the channel guards it.
#pragma once

#include <optional>
#include <span>

#include "comm/channel/service_inbox.h"
#include "comm/ucx/ucx_flights.h"
#include "comm/ucx/ucx_peers.h"

namespace evermoe {

class UcxServiceMessages final : private FlightOwner {
 public:
  UcxServiceMessages(UcxWorker& worker, UcxFlights& flights, UcxPeers& peers, ServiceInbox& box)
      : worker_(worker), flights_(flights), peers_(peers), box_(box) {}

  // Starts to receive what has arrived. While a thread of this process waits for a send of its own
  // to be taken (`somebody_sends`), more of the others' may come: see unix_connection.h.
  void take_arrived(bool somebody_sends);
  // The same for all that one rank has sent so far, whether there is room or not.
  void take_all_of(Rank from);

  // Whether some were left with UCX: they may come when there is room again.
  bool has_left_some() const { return has_left_some_; }

 private:
  void landed(Flight& flight, ucs_status_t status) override;

  ucp_tag_message_h next(ucp_tag_recv_info_t& info, bool somebody_sends);
  ucp_tag_message_h next_of(Rank rank, ucp_tag_recv_info_t& info, bool somebody_sends);
  bool is_worth_reading(const ucp_tag_recv_info_t& info) const;
  bool may_come(const ucp_tag_recv_info_t& info, bool somebody_sends) const;
  void receive(ucp_tag_message_h found, const ucp_tag_recv_info_t& info);

  UcxWorker& worker_;
  UcxFlights& flights_;
  UcxPeers& peers_;
  ServiceInbox& box_;
  bool has_left_some_ = false;
};

}  // namespace evermoe
