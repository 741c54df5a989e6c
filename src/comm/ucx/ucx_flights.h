// The messages of a channel that are in UCX's hands.
//
// Every message passes through memory of the transport on both sides. UCX cannot take back a
// message that is on its way, except by cutting the connection: ucp_request_cancel() does nothing
// for sends, and for a receive nothing once its message has begun to come. With memory of our own a
// caller gets its buffer back at once, and healthy peers stay connected when a view is revoked. A
// service message is received into its own memory.
//
// Not synchronised: the mutex of the channel guards it.
#pragma once

#include <cstddef>
#include <list>
#include <span>
#include <vector>

#include "comm/transport/pending_operation.h"
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
  // UCX is done with it: `received` bytes have come, if it is a receive. May be called inside
  // progress, so UCX must not be called from here. The flight lives until the next sweep().
  virtual void landed(Flight& flight, ucs_status_t status, size_t received) = 0;

 protected:
  ~FlightOwner() = default;
};

// Lives until UCX has completed it, which may be after its operation has been given back.
struct Flight {
  std::span<std::byte> bytes() const { return {memory, size}; }

  UcxFlights* flights = nullptr;
  std::list<Flight>::iterator self;
  FlightOwner* owner = nullptr;  // none of what is thrown away
  UcxPeer* peer = nullptr;       // likewise
  Tag tag;
  bool is_receive = false;
  bool is_found = false;  // by a probe: it cannot be cancelled
  BufferPool::Buffer buffer;
  std::byte* memory = nullptr;  // the buffer's, or the service message's
  size_t size = 0;
  PendingOperation* operation = nullptr;  // null once given back
  ArrivingServiceMessage* service_message = nullptr;
  void* request = nullptr;  // null before UCX has returned it and once it is complete
};

class UcxFlights {
 public:
  // `own` is what messages say of their sender.
  UcxFlights(UcxWorker& worker, Rank own, size_t pooled_bytes_max)
      : worker_(worker), rank_(own), pool_(pooled_bytes_max) {}

  // Sends a copy of `bytes` and, behind them, of `end`; for `operation`, if there is one.
  void send(FlightOwner& owner, UcxPeer& to, const Tag& tag, std::span<const std::byte> bytes,
            std::span<const std::byte> end = {}, PendingOperation* operation = nullptr);

  // Receives `size` bytes of this tag; for `operation`, if there is one.
  void receive(FlightOwner& owner, UcxPeer& from, const Tag& tag, size_t size,
               PendingOperation* operation = nullptr);

  // Receives a message that a probe has taken out of UCX's queue into `arriving`.
  void receive_service_message(FlightOwner& owner, UcxPeer& from, ucp_tag_message_h found,
                               ArrivingServiceMessage& arriving, std::span<std::byte> into);

  // Receives such a message and throws it away.
  void discard(ucp_tag_message_h found, size_t size);
  // All messages that nobody has received and whose tags agree in `mask`.
  void discard_all(uint64_t tag, uint64_t mask);

  // The operation is given back unfinished: UCX keeps the message's memory, which is ours, until it
  // is done with it.
  void let_go(const PendingOperation& operation);
  // The operations under way for which `is_wanted(flight)` holds; they are let go.
  template <typename Wanted>
  std::vector<PendingOperation*> take_operations(Wanted is_wanted);

  // Messages that are on their way already are not cancelled by this, and complete.
  void cancel_receives(const UcxPeer& from);

  // Whether messages that we send are still with us, to somebody whose connection stands.
  bool has_sends() const;
  bool empty() const { return flights_.empty(); }
  // Frees what has landed.
  void sweep();

 private:
  static void on_sent(void* request, ucs_status_t status, void* flight);
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                          void* flight);

  Flight& add(FlightOwner* owner, UcxPeer* peer, const Tag& tag, size_t size);
  void give_memory(Flight& flight);
  void launch_receive(Flight& flight, ucp_tag_message_h found);
  void land(Flight& flight, ucs_status_t status, size_t received);
  void cancel(Flight& flight);

  UcxWorker& worker_;
  const Rank rank_;
  BufferPool pool_;
  std::list<Flight> flights_;
  std::vector<std::list<Flight>::iterator> landed_;  // of flights_; freed by sweep()
};

template <typename Wanted>
std::vector<PendingOperation*> UcxFlights::take_operations(Wanted is_wanted) {
  std::vector<PendingOperation*> taken;
  for (Flight& flight : flights_) {
    if (flight.operation == nullptr || !is_wanted(flight)) continue;
    taken.push_back(std::exchange(flight.operation, nullptr));
    cancel(flight);
  }
  return taken;
}

}  // namespace evermoe
