#include "comm/ucx/ucx_operations.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

void finish(const std::vector<PendingOperation*>& operations, const absl::Status& reason) {
  for (PendingOperation* const operation : operations) operation->finish(reason);
}

}  // namespace

void UcxOperations::start_send(PendingOperation& send, UcxPeer& to) {
  if (!to.lost.ok()) return send.finish(to.lost);
  to.is_sent_to = true;
  const ServiceMessageEnd end{send.tag.view.value, 0, own_number_};
  const auto end_bytes = std::as_bytes(std::span(&end, 1));
  flights_.send(*this, to, send.tag, send.source,
                send.tag.group == kServiceGroup ? end_bytes : std::span<const std::byte>(), &send);
}

void UcxOperations::start_receive(PendingOperation& receive, UcxPeer& from) {
  flights_.receive(*this, from, receive.tag, receive.target.size(), &receive);
  // The rest will not come.
  if (!receive.finished && !from.lost.ok()) flights_.cancel_receives(from);
}

void UcxOperations::landed(Flight& flight, ucs_status_t status, size_t received) {
  UcxPeer& peer = *flight.peer;
  const bool has_wrong_size = status == UCS_OK && flight.is_receive && received != flight.size;
  CHECK(status != UCS_ERR_MESSAGE_TRUNCATED && !has_wrong_size)
      << "a receive of " << flight.size << " bytes meets a message of another length from rank "
      << peer.rank << ", " << describe(flight.tag) << ", " << ucs_status_string(status) << ", "
      << received << " bytes";
  if (flight.operation == nullptr) return;
  PendingOperation& operation = *std::exchange(flight.operation, nullptr);
  if (status == UCS_OK) {
    if (flight.is_receive) std::ranges::copy(flight.bytes(), operation.target.data());
    return operation.finish(absl::OkStatus());
  }
  if (peer.lost.ok()) peers_.report_failure(peer);
  operation.finish(!peer.lost.ok()
                       ? peer.lost
                       : PeerLost(peer.rank, absl::StrCat("rank ", peer.rank.value, ": ",
                                                          ucs_status_string(status))));
}

void UcxOperations::revoke(GroupRange groups, View view, const absl::Status& reason) {
  finish(flights_.take_operations([&](const Flight& flight) {
    return groups.contains(flight.tag.group) && flight.tag.view <= view;
  }),
         reason);
}

void UcxOperations::fail(const UcxPeer& peer, const absl::Status& reason) {
  finish(flights_.take_operations([&](const Flight& flight) { return flight.peer == &peer; }),
         reason);
}

void UcxOperations::fail_all(const absl::Status& reason) {
  finish(flights_.take_operations([](const Flight&) { return true; }), reason);
}

}  // namespace evermoe
