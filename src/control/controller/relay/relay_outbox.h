// What a relay does in answer to one call: envelopes to streams, to the agent of a node, to the
// run; streams that it cuts; lines of its log. In the order in which it was decided.
//
// Pure. Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "control/controller/relay/relay_peers.h"
#include "control/controller/relay/run_history.h"
#include "control/wire/control_messages.h"
#include "control/wire/control_stream.h"

namespace evermoe {

struct SendEnvelope {
  StreamNumber to;
  Envelope envelope;
};
struct CutStream {
  StreamNumber stream;
};
struct LogLine {
  std::string text;
};
using RelayAction = std::variant<SendEnvelope, CutStream, LogLine>;

class RelayOutbox {
 public:
  // Both outlive it. What no run is there to hear goes into the history.
  RelayOutbox(const RelayPeers& peers, RunHistory& history) : peers_(peers), history_(history) {}

  // `start`: of the process that is meant; 0: none.
  void send(StreamNumber to, ControlMessage message, int64_t start = 0) {
    actions_.emplace_back(SendEnvelope{to, {start, std::move(message)}});
  }
  void send(std::vector<SendEnvelope> envelopes) {
    for (SendEnvelope& one : envelopes) actions_.emplace_back(std::move(one));
  }
  // To its agent, if it has one.
  void send_to_node(Node node, ControlMessage message, int64_t start = 0) {
    if (const RelayPeers::Stream* const agent = peers_.agent(node))
      send(agent->first, std::move(message), start);
  }
  void tell_run(ControlMessage message);
  void cut(StreamNumber stream) { actions_.emplace_back(CutStream{stream}); }
  void log(std::string text) { actions_.emplace_back(LogLine{std::move(text)}); }

  std::vector<RelayAction> take() { return std::exchange(actions_, {}); }

 private:
  const RelayPeers& peers_;
  RunHistory& history_;
  std::vector<RelayAction> actions_;
};

}  // namespace evermoe
