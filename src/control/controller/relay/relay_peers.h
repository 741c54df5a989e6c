// Who is at the other end of which stream of a controller, and on which of them is the agent of
// which node.
//
// Invariant: a node has one agent at most, and its stream is in the table.
//
// Pure. Threads: one at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/controller_interface.h"
#include "control/wire/control_messages.h"
#include "control/wire/control_stream.h"

namespace evermoe {

// kDismissed: an agent that is free to go; what it still says is nobody's business.
enum class PeerKind { kUnknown, kAgent, kRun, kOperator, kDismissed };

struct RelayPeer {
  PeerKind kind = PeerKind::kUnknown;
  Node node;
  pid_t pid = 0;
  int64_t incarnation = 0;
  std::string host;
  bool is_ready = false;
  bool is_fed = false;  // the core knows it
  std::string arithmetic;
  std::vector<std::string> complaints;  // of its own
  StandbysKept standbys;                // with its node
  std::string lines;                    // where other agents reach it
  PlanName plan;  // the newest one that it has, or has been sent whole or as changes
  absl::Duration heard;
  std::set<int64_t> starts;  // of the workers that it has shown since it attached
  // Its line broke then, and why.
  std::optional<absl::Duration> broke;
  std::string why;

  bool is_agent() const { return kind == PeerKind::kAgent; }
};

class RelayPeers {
 public:
  using Stream = std::pair<const StreamNumber, RelayPeer>;

  // Whoever speaks there; kUnknown if nobody has before.
  Stream& meet(StreamNumber stream) { return *peers_.try_emplace(stream).first; }
  RelayPeer* find(StreamNumber stream);  // nullptr: nobody is there
  Stream* agent(Node node);              // nullptr: it has none
  const Stream* agent(Node node) const;
  int count(PeerKind kind) const;
  // Whom other agents can ask over a network: between those of one machine there is none.
  std::vector<AskPartners::Partner> partners() const;
  std::vector<Node> fed() const;

  // Is the agent of its node from now on. REQUIRES: agent(its node) == nullptr
  void set_agent(const Stream& stream) { agents_[stream.second.node] = stream.first; }
  // Is a run from now on.
  void set_run(Stream& stream);
  const std::set<StreamNumber>& runs() const { return runs_; }
  // Speaks for what the agent on `former` did, which is forgotten: it has a new line.
  void take_back(RelayPeer& returned, StreamNumber former);
  // What it was; nullopt: nobody was there.
  std::optional<RelayPeer> forget(StreamNumber stream);
  void forget_broken();
  // The agent of the node is free to go; nullptr: it has none.
  Stream* dismiss(Node node);

  bool is_empty() const { return peers_.empty(); }
  auto begin() const { return peers_.begin(); }
  auto end() const { return peers_.end(); }
  auto begin() { return peers_.begin(); }
  auto end() { return peers_.end(); }

 private:
  std::map<StreamNumber, RelayPeer> peers_;
  std::map<Node, StreamNumber> agents_;
  std::set<StreamNumber> runs_;
};

}  // namespace evermoe
