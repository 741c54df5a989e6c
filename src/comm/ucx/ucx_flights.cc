#include "comm/ucx/ucx_flights.h"

#include <algorithm>
#include <utility>

namespace evermoe {

namespace {

UcxMessageEnd end_of(const Tag& tag, uint64_t token) {
  return {tag.view.value, tag.purpose & static_cast<uint32_t>(kPurposeMask), 0, token};
}

}  // namespace

Flight& UcxFlights::add(FlightOwner* owner, UcxPeer* peer, const Tag& tag, UcxBytes bytes) {
  Flight& flight = flights_.emplace_back();
  flight.flights = this;
  flight.self = std::prev(flights_.end());
  flight.owner = owner;
  flight.peer = peer;
  flight.tag = tag;
  flight.bytes = std::move(bytes);
  if (peer != nullptr) ++peer->uses;
  return flight;
}

void UcxFlights::send(FlightOwner& owner, UcxPeer& to, PendingOperation& operation) {
  Flight& flight = add(&owner, &to, operation.tag,
                       UcxBytes::to_send(operation.source, end_of(operation.tag, to.out.token)));
  flight.operation = &operation;
  launch_send(flight);
}

void UcxFlights::receive(FlightOwner& owner, UcxPeer& from, PendingOperation& operation) {
  Flight& flight = add(&owner, &from, operation.tag, UcxBytes::to_receive(operation.target));
  flight.operation = &operation;
  launch_receive(flight, nullptr);
}

void UcxFlights::send(FlightOwner& owner, UcxPeer& to, const Tag& tag,
                      std::span<const std::byte> bytes) {
  launch_send(add(&owner, &to, tag, UcxBytes::to_send_copy(bytes, end_of(tag, 0))));
}

void UcxFlights::receive(FlightOwner& owner, UcxPeer& from, const Tag& tag, size_t size) {
  launch_receive(add(&owner, &from, tag, UcxBytes::to_receive(size)), nullptr);
}

void UcxFlights::receive_service_message(FlightOwner& owner, UcxPeer& from, ucp_tag_message_h found,
                                         ArrivingServiceMessage& arriving,
                                         std::span<std::byte> into) {
  Flight& flight = add(&owner, &from, Tag{View(0), kServiceGroup}, UcxBytes::to_receive(into));
  flight.service_message = &arriving;
  launch_receive(flight, found);
}

void UcxFlights::discard(ucp_tag_message_h found, size_t whole_size) {
  const size_t size = whole_size - std::min(whole_size, sizeof(UcxMessageEnd));
  launch_receive(add(nullptr, nullptr, Tag{}, UcxBytes::to_throw_away(size)), found);
}

void UcxFlights::discard_all(uint64_t tag, uint64_t mask) {
  ucp_tag_recv_info_t info;
  while (ucp_tag_message_h const found = ucp_tag_probe_nb(worker_.get(), tag, mask, 1, &info))
    discard(found, info.length);
}

void UcxFlights::launch_send(Flight& flight) {
  ucp_request_param_t param = parameters(flight);
  param.cb.send = on_sent;
  took_off(flight, ucp_tag_send_nbx(flight.peer->endpoint, &flight.bytes, 1,
                                    passed_tag(rank_, flight.tag, flight.peer->out.tag), &param));
}

// `found` is a message that a probe has taken out, if any.
void UcxFlights::launch_receive(Flight& flight, ucp_tag_message_h found) {
  flight.is_receive = true;
  flight.is_found = found != nullptr;
  ucp_request_param_t param = parameters(flight);
  param.cb.recv = on_received;
  took_off(flight,
           found != nullptr
               ? ucp_tag_msg_recv_nbx(worker_.get(), &flight.bytes, 1, found, &param)
               : ucp_tag_recv_nbx(worker_.get(), &flight.bytes, 1,
                                  passed_tag(flight.peer->rank, flight.tag, flight.peer->in.tag),
                                  kExactly, &param));
}

ucp_request_param_t UcxFlights::parameters(Flight& flight) {
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.datatype = UcxBytes::datatype();
  param.user_data = &flight;
  return param;
}

void UcxFlights::took_off(Flight& flight, void* request) {
  if (UCS_PTR_IS_PTR(request)) {
    flight.request = request;
  } else {
    land(flight, UCS_PTR_RAW_STATUS(request));
  }
}

void UcxFlights::on_sent(void* request, ucs_status_t status, void* data) {
  Flight& flight = *static_cast<Flight*>(data);
  flight.flights->land(flight, status);
  ucp_request_free(request);
}

void UcxFlights::on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t*,
                             void* data) {
  Flight& flight = *static_cast<Flight*>(data);
  flight.flights->land(flight, status);
  ucp_request_free(request);
}

void UcxFlights::land(Flight& flight, ucs_status_t status) {
  flight.request = nullptr;
  landed_.push_back(flight.self);
  if (flight.owner != nullptr) flight.owner->landed(flight, status);
}

void UcxFlights::cancel(Flight& flight) {
  if (flight.is_receive && !flight.is_found && flight.request != nullptr)
    ucp_request_cancel(worker_.get(), flight.request);
}

PendingOperation* UcxFlights::take_operation(Flight& flight) {
  flight.bytes.let_go();
  PendingOperation* const operation = std::exchange(flight.operation, nullptr);
  cancel(flight);
  return operation;
}

void UcxFlights::let_go(const PendingOperation& operation) {
  const auto flight = std::ranges::find(flights_, &operation, &Flight::operation);
  if (flight != flights_.end()) take_operation(*flight);
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

void UcxFlights::receive_again(Flight& flight) {
  flight.bytes.begin_again();
  launch_receive(flight, nullptr);
  if (!flight.peer->lost.ok()) cancel(flight);
}

void UcxFlights::sweep() {
  for (size_t i = 0; i < landed_.size(); ++i) {  // more may land meanwhile
    const auto flight = landed_[i];
    if (flight->operation != nullptr) {
      receive_again(*flight);
      continue;
    }
    if (flight->peer != nullptr) --flight->peer->uses;
    flights_.erase(flight);
  }
  landed_.clear();
}

}  // namespace evermoe
