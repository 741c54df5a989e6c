// One of the two channels of a UcxTransport: a worker, its endpoints, and the progress of all that
// moves there. Messages and service messages have a channel each, for the reason given in
// unix_channel.h.
//
// Every message passes through memory of the transport on both sides. UCX cannot take back a
// message that is on its way, except by cutting the connection; with memory of our own a caller
// gets its buffer back at once, and healthy peers stay connected when a view is revoked. A service
// message is received into its own memory.
//
// One mutex guards the worker; the waiting threads drive it as in progress_driver.h, and the
// transport's progress thread where none waits and something large is under way.
//
// ucx_channel.cc moves messages, ucx_channel_service.cc service messages; ucx_channel_peers.cc
// brings processes together and apart, ucx_channel_endings.cc revokes and closes.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/transport/inbox.h"
#include "comm/transport/progress_driver.h"
#include "comm/transport/progress_thread.h"
#include "comm/transport/revocations.h"
#include "comm/transport/service_inbox.h"
#include "comm/transport/transport.h"
#include "comm/ucx/ucx_tag.h"
#include "comm/ucx/ucx_worker.h"

namespace evermoe {

class UcxChannel;

// A process as one channel is told of it.
struct UcxProcess {
  std::string worker;   // address of its worker of this channel, as bytes
  uint64_t number = 0;  // process_number() of its whole address
  View since;           // of the younger one of the two: both ends know the same
};

// A service message that UCX is receiving.
struct ArrivingServiceMessage {
  ServiceMessage service_message;
  bool is_complete = false;
  bool is_good = false;
};

// A process that plays a rank, or has played it. Lives until UCX has let go of everything that has
// to do with it, so that what comes late for a former process never meets its successor.
struct UcxPeer {
  UcxChannel* channel = nullptr;
  Rank rank;
  UcxProcess process;
  ucp_ep_h endpoint = nullptr;
  int uses = 0;  // flights, and the closing of the endpoint
  uint32_t listens_for =
      0;                    // messages of the transport's own that a receive is posted for, as bits
  uint32_t world_size = 0;  // it believes in
  bool has_greeted = false;
  bool is_greeted = false;  // our greeting is on its way
  bool is_noted = false;    // in the channel's list of peers to act upon
  bool has_failed = false;  // reported by a callback; drive() acts upon it
  bool has_left = false;    // its goodbye has come, likewise
  bool knows_we_leave = false;
  bool is_sent_to = false;                     // something of a caller's
  absl::Status lost;                           // why it answers no more
  std::list<ArrivingServiceMessage> arriving;  // its service messages, in the order sent

  bool is_met() const { return has_greeted && is_greeted; }
};

// A message in UCX's hands. Lives until UCX has completed it, which may be after its operation has
// been given back.
struct Flight {
  enum class Role { kSend, kReceive, kOwnReceive, kService, kDiscard };

  UcxChannel* channel = nullptr;
  std::list<Flight>::iterator self;
  Role role = Role::kSend;
  Tag tag;
  BufferPool::Buffer buffer;
  size_t size = 0;
  UcxPeer* peer = nullptr;                // none of what is thrown away
  PendingOperation* operation = nullptr;  // null once given back
  ArrivingServiceMessage* service_message = nullptr;
  void* request = nullptr;  // null before UCX has returned it and once it is complete
};

class UcxChannel {
 public:
  enum class Traffic { kMessages, kService };

  // `own_number` is the process_number() of this process's address.
  UcxChannel(Rank rank, int size, uint64_t own_number, std::unique_ptr<UcxWorker> worker,
             Traffic traffic, ProgressThread& progress, const UcxTransportOptions& options);
  ~UcxChannel();
  // The only part of construction that can fail.
  absl::Status start() { return progress_driver_.start(); }

  // As in Transport; of this channel's traffic.
  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag,
                                                 std::span<const std::byte> bytes);
  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag, std::span<std::byte> into);
  absl::Status wait(std::unique_ptr<TransportOperation> operation, absl::Duration timeout);
  bool done(TransportOperation& operation);
  absl::StatusOr<ServiceMessage> receive_service_message(absl::Duration timeout);
  void revoke(GroupRange groups, View view, const absl::Status& reason);

  // Drops the connection with the rank's process and the messages of it that nobody has received;
  // its service messages stay. What is pending with it and what is started before another process
  // has been met fail with `reason`.
  void vacate(Rank rank, const absl::Status& reason);

  // Connects with a process that is to play the rank, and greets it. PeerLost if it is found dead.
  absl::Status greet(Rank rank, const UcxProcess& process);

  // Waits until everybody has been greeted and has greeted us. PeerLost and InvalidInput as of
  // Transport::meet(); Timeout names the silent ranks.
  absl::Status await_greetings(const Deadline& deadline);

  // Ok while the rank's process is connected, as far as is known; else what operations with it fail
  // with. Never blocks.
  absl::Status state_of(Rank rank);

  // Of the progress thread.
  ProgressThread::Next drive_in_background();

  // Starts to say goodbye to everybody; nothing can be started afterwards.
  void say_goodbye();
  // Works until the deadline or until all have taken our last messages and know that we leave: then
  // true.
  bool flush(const Deadline& deadline);
  // Ends everything.
  void finish();

 private:
  using Lock = ProgressDriver::Lock;

  // Who plays a rank: at one's own nobody.
  struct Seat {
    std::unique_ptr<UcxPeer> peer;
    absl::Status empty;  // what operations fail with if nobody has been met
  };

  static void on_sent(void* request, ucs_status_t status, void* flight);
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                          void* flight);
  static void on_failure(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  static void on_cut(void* request, ucs_status_t status, void* peer);

  Seat& seat(Rank rank);
  int size() const { return static_cast<int>(seats_.size()); }

  // ucx_channel.cc
  absl::Status refusal(const Seat& with, const Tag& tag) const;
  Flight& new_flight(Flight::Role role, UcxPeer* peer, const Tag& tag, size_t size);
  void launch_send(PendingOperation* operation, UcxPeer& to, const Tag& tag,
                   std::span<const std::byte> bytes);
  void launch_receive(Flight& flight, ucp_tag_message_h found = nullptr);
  void complete(Flight& flight, ucs_status_t status, size_t received);
  void finish_operation(Flight& flight, ucs_status_t status, size_t received);
  void let_go(PendingOperation& operation);
  void send_to_self(PendingOperation& send);
  void block(PendingOperation& operation, const Deadline& deadline, Lock& lock);
  bool work(const Deadline& deadline, Lock& lock);
  // Works off what has come for everybody. True if there was something.
  bool drive();
  // To be called for every operation with another process that has been started.
  void see_to(PendingOperation& operation);
  void sweep();

  // ucx_channel_service.cc
  void take_service_messages();
  ucp_tag_message_h next_service_message(ucp_tag_recv_info_t& info);
  ucp_tag_message_h next_service_message_of(Rank rank, ucp_tag_recv_info_t& info);
  bool is_worth_reading(const ucp_tag_recv_info_t& info) const;
  bool may_come(const ucp_tag_recv_info_t& info) const;
  void launch_service_message(ucp_tag_message_h found, const ucp_tag_recv_info_t& info);
  void service_message_came(Flight& flight, bool is_ok);
  std::optional<ServiceMessage> take_service_message();

  // ucx_channel_peers.cc
  absl::Status create_endpoint(UcxPeer& peer);
  void launch_own_send(UcxPeer& peer, uint32_t purpose);
  void listen_to(UcxPeer& peer);
  void own_message_came(Flight& flight, bool is_ok);
  // drive() is to act upon the peer. Also from inside a callback.
  void note(UcxPeer& peer);
  bool act_upon_noted();
  bool act_upon(UcxPeer& peer);
  void cancel_receives(const UcxPeer& from);
  void lose(UcxPeer& peer, const absl::Status& reason);
  void cut(UcxPeer& peer);
  void update_meeting();
  absl::Status outcome_of_meeting() const;

  // ucx_channel_endings.cc
  // Takes the messages that nobody has received and whose tags agree in `mask` out of UCX's queues.
  void discard_messages(uint64_t tag, uint64_t mask);
  bool is_unheard() const;

  const Rank rank_;
  const uint64_t own_number_;
  const Traffic traffic_;

  std::mutex mutex_;  // guards everything below
  std::unique_ptr<UcxWorker> worker_;
  BackgroundProgress background_;  // before the peers: their operations are counted there
  std::vector<Seat> seats_;
  std::vector<std::unique_ptr<UcxPeer>> former_;
  std::vector<UcxPeer*> noted_;
  BufferPool pool_;
  std::list<Flight> flights_;
  std::vector<std::list<Flight>::iterator> completed_;  // of flights_; freed by sweep()
  Inbox from_self_;
  ServiceInbox service_messages_;
  bool holds_service_messages_ = false;  // some stay in UCX's queues because the box is full
  int send_waiters_ = 0;                 // threads that wait for a send
  Revocations revocations_;
  PendingOperation* meeting_ = nullptr;  // of the thread in await_greetings()
  bool has_news_of_meeting_ = false;     // since its outcome was looked at
  int vain_calls_ = 0;  // of UCX's event descriptor, since there was something to do
  bool closed_ = false;
  ProgressDriver progress_driver_;
};

}  // namespace evermoe
