#include "comm/ucx/ucx_operations.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"

namespace evermoe {
namespace {

void finish(const std::vector<PendingOperation*>& operations, const absl::Status& reason) {
  for (PendingOperation* const operation : operations) operation->finish(reason);
}

}  // namespace

void UcxOperations::start_send(PendingOperation& send, UcxPeer& to) {
  if (!to.lost.ok()) return send.finish(to.lost);
  to.is_sent_to = true;
  flights_.send(*this, to, send);
}

void UcxOperations::start_receive(PendingOperation& receive, UcxPeer& from) {
  flights_.receive(*this, from, receive);
  // The rest will not come.
  if (!receive.finished && !from.lost.ok()) flights_.cancel_receives(from);
}

void UcxOperations::landed(Flight& flight, ucs_status_t status) {
  UcxPeer& peer = *flight.peer;
  const bool has_come = status == UCS_OK && flight.is_receive;
  if (status == UCS_ERR_MESSAGE_TRUNCATED || (has_come && !UcxFlights::is_of_peer(flight))) {
    // A stranger, who must not be able to end this process, or a mistake of ours.
    log_error(absl::StrCat("a receive of ", flight.bytes.size(),
                           " bytes has met a message of another length or of a stranger, in the "
                           "name of rank ",
                           peer.rank.value, ", ", describe(flight.tag)));
    return;  // it is received again
  }
  if (has_come && flight.bytes.end().is_withdrawn != 0) return;  // likewise
  if (flight.operation == nullptr) return;
  PendingOperation& operation = *std::exchange(flight.operation, nullptr);
  if (status == UCS_OK) return operation.finish(absl::OkStatus());
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
