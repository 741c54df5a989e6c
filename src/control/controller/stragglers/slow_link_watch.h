// Which links between nodes are slow: messages there take longer than usual (docs/stragglers.md).
//
// Roles time probes to those to whom they send (recovery/member/serve/link_probes.h). What keeps a
// processor busy, and other traffic, only makes a probe later, so the shortest of several tells of
// the link; a role that is late with its messages delays no probe. All roles of two nodes measure
// one link, each direction apart.
//
// What counts is what a link makes of its traffic: of a second's messages half the round trip each,
// and of their bytes the time of large messages. A round trip counts as longer than usual by no
// more than large messages are: else it has waited behind other traffic. Spells of eight
// measurements and half of `for_steps` steps are compared, each by its shortest times. A link is
// slow when that has been at least `link_slower_than` times as long as usual in all of the last
// three, takes a fiftieth of the time more, and noise does not explain it: that is three times what
// the longest spell of its past has taken more than most. It is slow no more when two of three are
// nearer to usual than to the limit.
//
// Usual is what spells before were like, mostly. For large messages it is also what the other links
// of the same sender take and the other ones of the same receiver, the longer of both, so that one
// that was slow from the beginning is found; how far apart two machines are is left out of that.
//
// Where a node has a straggler its links are not judged, and what is measured meanwhile is dropped:
// a processor that is slow is slow with messages, too.
//
// Pure. Threads: one at a time.
#pragma once

#include <compare>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/ids.h"
#include "control/controller/controller_interface.h"
#include "recovery/protocol/link_time.h"

namespace evermoe {

// From one node to another one.
struct NodeLink {
  Node from, to;
  friend auto operator<=>(const NodeLink&, const NodeLink&) = default;
};

// Shortest times of a link.
struct LinkFigures {
  absl::Duration round_trip = absl::InfiniteDuration();
  absl::Duration bulk = absl::InfiniteDuration();
};

class SlowLinkWatch {
 public:
  explicit SlowLinkWatch(StragglerOptions options) : options_(options) {}

  // A role on `link.from` has measured this of one on `link.to`; `newest`: the newest committed
  // step.
  void note(absl::Duration now, NodeLink link, Step newest, const LinkTime& time);
  // The node is another machine from now on, or gone.
  void forget(Node node);

  struct Finding {
    NodeLink link;
    bool is_slow = false;  // false: it was, and is no more, or nobody has used it for long
    double factor = 1;     // how many times as long as usual
    LinkFigures now, usual;
    Step step;  // the newest one by then
  };
  // What has become of links since the last call. `slow_nodes`: those with a straggler.
  std::vector<Finding> look(absl::Duration now, const std::set<Node>& slow_nodes);

  // Of how many links it is known what is usual.
  int known() const;
  // How many times as long as usual, of those that are slow now.
  const std::map<NodeLink, double>& slow() const { return slow_; }

 private:
  // What goes over a link in a second: messages, and large ones' worth of bytes.
  struct Traffic {
    double messages = 0, bulks = 0;
    // What they take in all, in seconds.
    double cost(const LinkFigures& figures) const;
  };
  struct Spell {
    int measurements = 0;
    Step first;
    LinkFigures shortest;
    Traffic sum;  // over the measurements
  };
  struct Watched {
    Spell spell;                   // under way
    std::deque<Spell> recent;      // those that are judged, oldest first
    std::deque<LinkFigures> past;  // of spells before in which it was not slow
    Step newest;
    absl::Duration heard;         // when it was measured last
    bool is_judged_anew = false;  // a spell has ended since the last look
  };

  // What is usual on links that are known.
  struct KnownLink {
    NodeLink link;
    LinkFigures usual;
  };
  struct KnownLinks {
    std::map<Node, std::vector<KnownLink>> of_sender, of_receiver;
  };

  void end_spell(NodeLink link, Watched& watched);
  static LinkFigures shortest(const Watched& watched);
  static Traffic traffic(const Watched& watched);
  KnownLinks known_links() const;
  // REQUIRES: spells of the past.
  static LinkFigures usual(NodeLink link, const Watched& watched, const KnownLinks& known);
  std::optional<Finding> judge(NodeLink link, const Watched& watched,
                               const KnownLinks& known) const;
  static double noise_before(const Watched& watched, const Traffic& traffic);
  static double typical_factor(const Watched& watched, const LinkFigures& usual);
  double middle() const { return (1 + options_.link_slower_than) / 2; }

  const StragglerOptions options_;
  std::map<NodeLink, Watched> watched_;
  std::map<NodeLink, double> slow_;
};

}  // namespace evermoe
