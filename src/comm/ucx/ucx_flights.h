// The messages of a channel that are in UCX's hands.
//
// A message may outlive its operation (ucx_bytes.h says how): then it is nobody's, and its flight
// ends when UCX is done with it.
//
// Not synchronised: the mutex of the channel guards it.
#pragma once

#include <cstddef>
#include <list>
#include <span>
#include <utility>
#include <vector>

#include "comm/channel/pending_operation.h"
#include "comm/ucx/ucx_bytes.h"
#include "comm/ucx/ucx_peer.h"
#include "comm/ucx/ucx_tag.h"
#include "comm/ucx/ucx_worker.h"

namespace evermoe {

class UcxFlights;
struct Flight;
struct ArrivingServiceMessage;

// Who has started a flight.
class FlightOwner {
 public:
  // UCX is done with it. May be called inside progress, so UCX must not be called from here. The
  // flight lives until the next sweep(), which receives again if it still has an operation.
  virtual void landed(Flight& flight, ucs_status_t status) = 0;

 protected:
  ~FlightOwner() = default;
};

// Lives until UCX has completed it, which may be after its operation has been given back.
struct Flight {
  UcxFlights* flights = nullptr;
  std::list<Flight>::iterator self;
  FlightOwner* owner = nullptr;  // none of what is thrown away
  UcxPeer* peer = nullptr;       // likewise
  Tag tag;
  bool is_receive = false;
  bool is_found = false;  // by a probe: it cannot be cancelled
  UcxBytes bytes = UcxBytes::to_throw_away(0);
  PendingOperation* operation = nullptr;  // null once given back
  ArrivingServiceMessage* service_message = nullptr;
  void* request = nullptr;  // null before UCX has returned it and once it is complete
};

class UcxFlights {
 public:
  // `own`: the rank of this process.
  UcxFlights(UcxWorker& worker, Rank own) : worker_(worker), rank_(own) {}

  // For an operation: its memory is used until it finishes or is given back.
  void send(FlightOwner& owner, UcxPeer& to, PendingOperation& operation);
  void receive(FlightOwner& owner, UcxPeer& from, PendingOperation& operation);

  // Whether what has landed is a whole message of the peer, and not somebody else's that bears its
  // name.
  static bool is_of_peer(const Flight& flight) {
    return flight.bytes.are_complete() && flight.bytes.end().token == flight.peer->in.token;
  }

  // The transport's own messages: a copy is sent, and received in memory of the flight.
  void send(FlightOwner& owner, UcxPeer& to, const Tag& tag, std::span<const std::byte> bytes);
  void receive(FlightOwner& owner, UcxPeer& from, const Tag& tag, size_t size);

  // Receives a message that a probe has taken out of UCX's queue into `arriving`.
  void receive_service_message(FlightOwner& owner, UcxPeer& from, ucp_tag_message_h found,
                               ArrivingServiceMessage& arriving, std::span<std::byte> into);

  // Receives such a message and throws it away.
  void discard(ucp_tag_message_h found, size_t whole_size);
  // All messages that nobody has received and whose tags agree in `mask`.
  void discard_all(uint64_t tag, uint64_t mask);

  // The operation is given back unfinished: its memory is neither read nor written any more.
  void let_go(const PendingOperation& operation);
  // The operations under way for which `is_wanted(flight)` holds; they are let go likewise.
  template <typename Wanted>
  std::vector<PendingOperation*> take_operations(Wanted is_wanted);

  // Messages that are on their way already are not cancelled by this, and complete.
  void cancel_receives(const UcxPeer& from);

  // Whether messages that we send are still with us, to somebody whose connection stands.
  bool has_sends() const;
  bool empty() const { return flights_.empty(); }
  // Frees what has landed and is not to be received again.
  void sweep();

 private:
  static void on_sent(void* request, ucs_status_t status, void* flight);
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                          void* flight);

  Flight& add(FlightOwner* owner, UcxPeer* peer, const Tag& tag, UcxBytes bytes);
  void launch_send(Flight& flight);
  void launch_receive(Flight& flight, ucp_tag_message_h found);
  static ucp_request_param_t parameters(Flight& flight);  // without the callback
  // `request` is what UCX has returned: its request, or a status if it is done already.
  void took_off(Flight& flight, void* request);
  void land(Flight& flight, ucs_status_t status);
  void receive_again(Flight& flight);
  void cancel(Flight& flight);
  PendingOperation* take_operation(Flight& flight);

  UcxWorker& worker_;
  const Rank rank_;
  std::list<Flight> flights_;
  std::vector<std::list<Flight>::iterator> landed_;  // of flights_; freed by sweep()
};

template <typename Wanted>
std::vector<PendingOperation*> UcxFlights::take_operations(Wanted is_wanted) {
  std::vector<PendingOperation*> taken;
  for (Flight& flight : flights_) {
    if (flight.operation == nullptr || !is_wanted(flight)) continue;
    taken.push_back(take_operation(flight));
  }
  return taken;
}

}  // namespace evermoe
