// A process that plays a rank, or has played it, as a channel of a UcxTransport knows it.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <list>
#include <string>

#include "absl/status/status.h"
#include "comm/transport/proven_greeting.h"
#include "comm/transport/transport.h"

namespace evermoe {

class UcxPeers;

// A process as one channel is told of it.
struct UcxProcess {
  std::string worker;     // address of its worker of this channel, as bytes
  uint64_t number = 0;    // process_number() of its whole address
  View since;             // of the younger one of the two: both ends know the same
  bool is_older = false;  // than this process
};

// A service message that UCX is receiving.
struct ArrivingServiceMessage {
  ServiceMessage service_message;
  bool is_complete = false;
  bool is_good = false;
};

// Lives until UCX has let go of everything that has to do with it, so that what comes late for a
// former process never meets its successor.
struct UcxPeer {
  // Both ends know each other: callers' operations may begin.
  bool is_connected() const { return has_greeted && is_greeted; }
  bool has_endpoint() const { return endpoint != nullptr && lost.ok(); }

  UcxPeers* peers = nullptr;
  Rank rank;
  UcxProcess process;
  ucp_ep_h endpoint = nullptr;  // none before one of the two needs the connection
  int uses = 0;                 // flights, and the closing of the endpoint
  uint32_t listens_for = 0;     // messages of the transport's own with a receive posted, as bits
  uint32_t world_size = 0;      // it believes in
  Pass out, in;                 // of messages to it and from it, once it has greeted
  bool has_greeted = false;
  bool is_greeted = false;  // our greeting is on its way
  bool is_noted = false;    // in the list of peers to act upon
  bool is_settled = false;  // connected or lost
  bool has_failed = false;  // reported by a callback
  bool has_left = false;    // its goodbye has come, likewise
  bool knows_we_leave = false;
  bool is_sent_to = false;                     // something of a caller's
  absl::Status lost;                           // why it answers no more
  std::list<ArrivingServiceMessage> arriving;  // its service messages, in the order sent
};

}  // namespace evermoe
