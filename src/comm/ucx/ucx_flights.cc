#include "comm/ucx/ucx_flights.h"

#include <algorithm>
#include <cstring>

namespace evermoe {

Flight& UcxFlights::add(FlightOwner* owner, UcxPeer* peer, const Tag& tag, size_t size) {
  Flight& flight = flights_.emplace_back();
  flight.flights = this;
  flight.self = std::prev(flights_.end());
  flight.owner = owner;
  flight.peer = peer;
  flight.tag = tag;
  flight.size = size;
  if (peer != nullptr) ++peer->uses;
  return flight;
}

void UcxFlights::give_memory(Flight& flight) {
  flight.buffer = pool_.take(flight.size);
  flight.memory = flight.buffer.bytes.get();
}

void UcxFlights::send(FlightOwner& owner, UcxPeer& to, const Tag& tag,
                      std::span<const std::byte> bytes, std::span<const std::byte> end,
                      PendingOperation* operation) {
  Flight& flight = add(&owner, &to, tag, bytes.size() + end.size());
  flight.operation = operation;
  give_memory(flight);
  if (!bytes.empty()) std::memcpy(flight.memory, bytes.data(), bytes.size());
  if (!end.empty()) std::memcpy(flight.memory + bytes.size(), end.data(), end.size());
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = on_sent;
  param.user_data = &flight;
  void* const request =
      ucp_tag_send_nbx(to.endpoint, flight.memory, flight.size, ucx_tag(rank_, tag), &param);
  if (UCS_PTR_IS_PTR(request)) {
    flight.request = request;
  } else {
    land(flight, UCS_PTR_RAW_STATUS(request), 0);
  }
}

void UcxFlights::receive(FlightOwner& owner, UcxPeer& from, const Tag& tag, size_t size,
                         PendingOperation* operation) {
  Flight& flight = add(&owner, &from, tag, size);
  flight.operation = operation;
  give_memory(flight);
  launch_receive(flight, nullptr);
}

void UcxFlights::receive_service_message(FlightOwner& owner, UcxPeer& from, ucp_tag_message_h found,
                                         ArrivingServiceMessage& arriving,
                                         std::span<std::byte> into) {
  Flight& flight = add(&owner, &from, Tag{View(0), kServiceGroup}, into.size());
  flight.service_message = &arriving;
  flight.memory = into.data();
  launch_receive(flight, found);
}

void UcxFlights::discard(ucp_tag_message_h found, size_t size) {
  Flight& flight = add(nullptr, nullptr, Tag{}, size);
  give_memory(flight);
  launch_receive(flight, found);
}

void UcxFlights::discard_all(uint64_t tag, uint64_t mask) {
  ucp_tag_recv_info_t info;
  while (ucp_tag_message_h const found = ucp_tag_probe_nb(worker_.get(), tag, mask, 1, &info))
    discard(found, info.length);
}

// `found` is a message that a probe has taken out, if any.
void UcxFlights::launch_receive(Flight& flight, ucp_tag_message_h found) {
  flight.is_receive = true;
  flight.is_found = found != nullptr;
  // UCX 1.13 leaves this alone when it completes at once: then only a too long message is noticed.
  ucp_tag_recv_info_t info{0, flight.size};
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_RECV_INFO;
  param.cb.recv = on_received;
  param.user_data = &flight;
  param.recv_info.tag_info = &info;
  void* const request =
      found != nullptr
          ? ucp_tag_msg_recv_nbx(worker_.get(), flight.memory, flight.size, found, &param)
          : ucp_tag_recv_nbx(worker_.get(), flight.memory, flight.size,
                             ucx_tag(flight.peer->rank, flight.tag), kExactly, &param);
  if (UCS_PTR_IS_PTR(request)) {
    flight.request = request;
  } else {
    land(flight, UCS_PTR_RAW_STATUS(request), info.length);
  }
}

void UcxFlights::on_sent(void* request, ucs_status_t status, void* data) {
  Flight& flight = *static_cast<Flight*>(data);
  flight.flights->land(flight, status, 0);
  ucp_request_free(request);
}

void UcxFlights::on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                             void* data) {
  Flight& flight = *static_cast<Flight*>(data);
  flight.flights->land(flight, status, info->length);
  ucp_request_free(request);
}

void UcxFlights::land(Flight& flight, ucs_status_t status, size_t received) {
  flight.request = nullptr;
  landed_.push_back(flight.self);
  if (flight.owner != nullptr) flight.owner->landed(flight, status, received);
}

void UcxFlights::cancel(Flight& flight) {
  if (flight.is_receive && !flight.is_found && flight.request != nullptr)
    ucp_request_cancel(worker_.get(), flight.request);
}

void UcxFlights::let_go(const PendingOperation& operation) {
  for (Flight& flight : flights_) {
    if (flight.operation != &operation) continue;
    flight.operation = nullptr;
    return cancel(flight);
  }
}

void UcxFlights::cancel_receives(const UcxPeer& from) {
  for (Flight& flight : flights_) {
    if (flight.peer == &from) cancel(flight);
  }
}

bool UcxFlights::has_sends() const {
  return std::any_of(flights_.begin(), flights_.end(), [](const Flight& flight) {
    return !flight.is_receive && flight.request != nullptr && flight.peer->endpoint != nullptr;
  });
}

void UcxFlights::sweep() {
  for (const auto flight : landed_) {
    if (flight->peer != nullptr) --flight->peer->uses;
    pool_.give_back(std::move(flight->buffer));
    flights_.erase(flight);
  }
  landed_.clear();
}

}  // namespace evermoe
