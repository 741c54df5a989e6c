// Two seats for each role of a job: one of the process that plays it, and one of the process that
// is to play it next, the joiner, or has played it before, the leaver.
//
// The transports of a job with w roles have 2 w ranks. To whoever uses a seated transport, rank r
// is the process that plays role r by the last table, and rank w + r the role's other process, if
// the table names one. Underneath, a process keeps the seat that it came with, r or w + r, and its
// address says which. So a joiner can be connected with, and be given what the role has, while the
// leaver still plays it; and when it takes the role, other processes are meant by the ranks from
// then on, and no connection is touched.
//
// A process means itself by its role's rank, whatever the table says, and another process of the
// role by the other one.
//
// Service messages from a process, in the view from which it plays the role or a later one, come
// from that role's rank, though the table that says so may come only then. Errors accuse roles.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/transport/transport.h"
#include "comm/transport/transport_listener.h"

namespace evermoe {

inline int seats_of_job(int world_size) { return 2 * world_size; }
// The rank of a role's seat, 0 or 1, underneath.
inline Rank seat_rank(Rank role, int seat, int world_size) {
  return Rank(role.value + seat * world_size);
}
// The rank of a role's other process.
inline Rank other_process(Rank role, int world_size) { return Rank(role.value + world_size); }

// For Transport::set_peers(): `table` has who plays the roles, `others` some of their other
// processes. `seats`: Transport::size().
std::vector<PeerAddress> with_others(std::vector<PeerAddress> table, int seats,
                                     const std::map<Rank, PeerAddress>& others);

// The address of a process in seat 0 or 1 of its role that listens at `address`.
std::string seated_address(int seat, const std::string& address);
// InvalidInput if it is not of this kind.
absl::StatusOr<int> seat_in(const std::string& seated_address);

class SeatedTransport final : public Transport {
 public:
  // `inner` has seats_of_job() ranks, of which its own is the seat, and outlives it.
  explicit SeatedTransport(Transport& inner);
  explicit SeatedTransport(std::unique_ptr<Transport> inner) : SeatedTransport(*inner) {
    owned_ = std::move(inner);
  }

  Rank rank() const override { return role_; }
  int size() const override { return inner_.size(); }
  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag,
                                                 std::span<const std::byte> bytes) override {
    return inner_.start_send(seat_of(to), tag, bytes);
  }
  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag,
                                                    std::span<std::byte> into) override {
    return inner_.start_receive(seat_of(from), tag, into);
  }
  absl::Status wait(std::unique_ptr<TransportOperation> operation, absl::Duration timeout) override;
  bool done(TransportOperation& operation) override { return inner_.done(operation); }
  int sends_under_way() const override { return inner_.sends_under_way(); }
  int64_t connections_opened() const override { return inner_.connections_opened(); }
  absl::StatusOr<ServiceMessage> receive_service_message(absl::Duration timeout) override;
  using Transport::revoke;
  void revoke(GroupRange groups, View view, absl::Status reason) override {
    inner_.revoke(groups, view, std::move(reason));
  }
  // InvalidInput also for an address without a seat, and for two processes in one.
  absl::Status set_peers(const std::vector<PeerAddress>& table) override;
  void connect(Rank peer, Traffic traffic) override { inner_.connect(seat_of(peer), traffic); }
  bool is_connected(Rank peer, Traffic traffic) const override {
    return inner_.is_connected(seat_of(peer), traffic);
  }
  void cut(Rank peer) override { inner_.cut(seat_of(peer)); }
  void close() override { inner_.close(); }

 private:
  // Of a role, as the last table says.
  struct Players {
    int seat = 0;  // of who plays it
    View since;
    View other_since;  // of the other process; 0: there is none
  };

  int roles() const { return inner_.size() / 2; }
  Rank seat_of(Rank rank) const;
  Rank rank_of(Rank seat, View view) const;
  // Puts what the table says of a role into its two seats.
  absl::StatusOr<Players> place(Rank role, const std::vector<PeerAddress>& table,
                                std::vector<PeerAddress>& seats) const;

  std::unique_ptr<Transport> owned_;
  Transport& inner_;
  const Rank role_;
  mutable Mutex mutex_;
  std::vector<Players> players_ ABSL_GUARDED_BY(mutex_);  // by role
};

// Opens seated transports: open() is told the role, and twice the number of roles as the size.
std::unique_ptr<TransportListener> listen_in_seat(std::unique_ptr<TransportListener> inner,
                                                  int seat);

}  // namespace evermoe
