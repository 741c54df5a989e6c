// The processes that a channel is connected with: endpoints, greetings, goodbyes and losses.
//
// Callbacks of UCX only note what has happened to a peer; act_upon_noted() draws the conclusions
// outside of progress, where UCX may be called.
//
// Not synchronised: the mutex of the channel guards it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "comm/transport/proven_greeting.h"
#include "comm/ucx/ucx_flights.h"
#include "comm/ucx/ucx_peer.h"

namespace evermoe {

class UcxPeers final : private FlightOwner {
 public:
  // Who plays a rank: at one's own nobody.
  struct Place {
    std::unique_ptr<UcxPeer> peer;
    absl::Status empty;  // what operations fail with if nobody has been named
  };

  // `own_number` is the process_number() of this process's address; `secret` the job's.
  UcxPeers(Rank rank, int size, uint64_t own_number, const JobSecret& secret, UcxWorker& worker,
           UcxFlights& flights);

  int size() const { return static_cast<int>(places_.size()); }
  Place& place(Rank rank);
  // Null also for ranks that do not exist: what comes from the wire names them.
  UcxPeer* find(Rank rank);

  // Gives the rank to a process. Its greeting is answered from now on.
  void name_process(Rank rank, const UcxProcess& process);
  // Makes an endpoint and starts to greet, unless that has happened. Greeting at once establishes
  // the connection, so that the death of the peer breaks one.
  void connect(UcxPeer& peer);

  // The peer of the rank leaves its place and is cut; it lives on until UCX has let go of it. Not
  // to be called for empty places.
  void turn_away(Rank rank, const absl::Status& reason);

  // UCX has failed with the peer. Also from inside a callback.
  void report_failure(UcxPeer& peer);
  // Acts upon what callbacks have noted. True if there was something: progress follows.
  bool act_upon_noted();

  // Ranks whose peers are connected or lost since the last call: what waits for them can go on.
  std::vector<Rank> take_settled() { return std::exchange(settled_, {}); }
  // Connections with older processes that have been made so far.
  int64_t opened() const { return opened_; }
  // Whether there are peers that may still greet us.
  bool has_unsettled() const { return unsettled_ > 0; }

  // Starts to say goodbye to everybody who is connected, and to those who still greet us.
  void say_goodbye();
  // Whether closing now could take our goodbye away from one of them; of those only whom a caller
  // has sent something, if asked so.
  bool has_unheard_goodbye(bool only_if_sent_to) const;
  void lose_all(const absl::Status& reason);
  void cut_all();
  // Frees former peers that UCX has let go of.
  void sweep();

 private:
  static void on_failure(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  static void on_cut(void* request, ucs_status_t status, void* peer);

  // Of the transport's own messages.
  void landed(Flight& flight, ucs_status_t status) override;
  void hear(UcxPeer& peer, const Flight& flight);
  ProvenGreeting own_greeting(const UcxPeer& to) const;
  void say(UcxPeer& peer, uint32_t purpose);
  void listen_to(UcxPeer& peer);

  absl::Status create_endpoint(UcxPeer& peer);
  void note(UcxPeer& peer);
  void settle(UcxPeer& peer);
  bool act_upon(UcxPeer& peer);
  void lose(UcxPeer& peer, const absl::Status& reason);
  void cut(UcxPeer& peer);

  const Rank rank_;
  const uint64_t own_number_;
  const JobSecret secret_;
  const Nonce nonce_;
  UcxWorker& worker_;
  UcxFlights& flights_;
  std::vector<Place> places_;
  std::vector<std::unique_ptr<UcxPeer>> former_;
  std::vector<UcxPeer*> noted_;
  std::vector<Rank> settled_;
  int64_t refused_ = 0;  // greetings that proved nothing
  int64_t opened_ = 0;
  int unsettled_ = 0;  // named ones that are neither connected nor lost
  bool leaves_ = false;
};

}  // namespace evermoe
