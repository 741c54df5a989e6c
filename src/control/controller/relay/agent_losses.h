// Which agents are lost, with all the workers of their nodes: whose line broke and who did not come
// back, who is silent, whom others accuse. Pure: the table of peers and time in, whom and why out.
//
// A line that breaks may be back for a while: both of its ends may live. But when other nodes
// cannot reach the workers of that node either, it is the node. While the job goes on, which it
// cannot without the workers of a node, their agent is not lost, whether its line is silent or
// broken: with loss on the way towards it alone, an agent hangs up that cannot call again. And when
// most of the agents are silent at once it is the controller that is cut off.
//
// Threads: one at a time.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/relay/relay_peers.h"
#include "control/controller/relay/role_processes.h"

namespace evermoe {

struct AgentLossLimits {  // RelayOptions says what they are
  absl::Duration silence_max, return_max, cut_off_max;
};

struct LostPeer {
  StreamNumber stream;
  std::string why;
};

class AgentLosses {
 public:
  explicit AgentLosses(AgentLossLimits limits) : limits_(limits) {}

  // The newest commit that is known now. True: it is another one than before, so the job moves.
  bool on_newest(Commit newest, absl::Duration now);
  // The work of all is done: nothing goes on any more.
  void on_released() { is_released_ = true; }
  // Another member cannot reach the process of that role.
  void on_accused(Rank rank, absl::Duration now) { accused_[rank] = now; }

  // Lines may break though both ends live.
  bool may_lines_break() const { return limits_.return_max > absl::ZeroDuration(); }
  // The agent may be back whose line breaks now.
  bool may_return(absl::Duration now, Node node, const RoleProcesses& processes) const {
    return may_lines_break() && !is_accused(now, node, processes);
  }
  // Whose lines broke, and who have had their time: return_max, and as long as the job goes on if
  // their workers play roles in it.
  std::vector<LostPeer> not_back(absl::Duration now, const RelayPeers& peers,
                                 const RoleProcesses& processes) const;
  // Also runs and operators. `allowance`: how much later a sign of life of a node may come.
  std::vector<LostPeer> silent(absl::Duration now, const RelayPeers& peers,
                               const std::function<absl::Duration(Node)>& allowance) const;
  // When not_back() may name somebody else.
  absl::Duration next_due(const RelayPeers& peers, const RoleProcesses& processes) const;

 private:
  // The job goes on until then, as far as is known.
  absl::Duration goes_on_until() const {
    return is_released_ ? -absl::InfiniteDuration() : moved_ + limits_.silence_max;
  }
  // REQUIRES: its line broke
  absl::Duration awaited_until(const RelayPeer& peer, const RoleProcesses& processes) const;
  bool is_accused(absl::Duration now, Node node, const RoleProcesses& processes) const;
  bool is_cut_off(absl::Duration now, const RelayPeers& peers) const;
  bool is_lost(absl::Duration now, const RelayPeer& peer, absl::Duration silence,
               bool is_cut_off) const;

  const AgentLossLimits limits_;
  Commit newest_{-1};  // and since when it is known
  absl::Duration moved_ = -absl::InfiniteDuration();
  bool is_released_ = false;
  std::map<Rank, absl::Duration> accused_;  // when last
};

}  // namespace evermoe
