// When machines are asked whether they reach each other (health/network_probe.h), and what came of
// it. Pure: events and time in, orders and outcomes out.
//
//   resting --(due, begin())--> asking --(all have reported, or round_max)--> take() --> resting
//
// A round is due before the first roles are given, soon after a machine has come, and every
// HealthPauses::of_fit; while one is not fit after pauses that double.
//
// Nobody waits for a round for longer than round_max. An agent has answer_max for its questions: in
// this time TCP sends the first packet of a connection three times (after 1 and 3 seconds); what is
// left of round_max is for the reports.
//
// Invariant: not all machines that take part are unfit. A job on bad lines is better than none.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/health/health_watch.h"
#include "control/health/network_probe.h"
#include "control/wire/control_messages.h"

namespace evermoe {

struct NetworkPace {
  absl::Duration answer_max = absl::Seconds(4);
  HealthPauses pauses;
};

class NetworkRounds {
 public:
  // round_max 0: no machine is asked. `is_begun`: the job has begun under another controller, and
  // nothing waits for the first round.
  NetworkRounds(NetworkPace pace, absl::Duration round_max, bool is_begun, absl::Duration now);

  // The beginning of the job waits for a round.
  void want(absl::Duration now);
  // Soon; but not before the first round, which waits for all that begin.
  void on_joined(absl::Duration now);
  // It says nothing more of what it was asked, but may be there.
  void on_line_broken(Node node) { awaited_.erase(node); }
  // Those that are left may look different without it.
  void on_lost(absl::Duration now, Node node);

  bool is_due(absl::Duration now) const { return !is_asking_ && now >= due_; }
  struct Order {
    Node to;
    AskPartners order;
  };
  // Of the machines that are there and have lines over a network.
  std::vector<Order> begin(absl::Duration now, const std::vector<AskPartners::Partner>& members);
  void on_report(Node from, const PartnersAsked& report);

  bool is_over(absl::Duration now) const;
  // Ends the round. Lines of the story: each pair that does not reach each other is told once, and
  // once that it does again.
  std::vector<std::string> take(absl::Duration now);

  absl::Duration next_due() const;
  // Of the newest round that could tell; empty: none.
  std::string complaint(Node node) const;

 private:
  using Pair = std::pair<Node, Node>;
  std::vector<QuestionResult> results() const;
  void settle(const NetworkVerdict& verdict);
  std::vector<std::string> tell_pairs(const NetworkVerdict& verdict);

  const NetworkPace pace_;
  const absl::Duration round_max_;
  bool is_begun_;
  HealthSchedule schedule_;
  absl::Duration due_ = absl::InfiniteDuration();
  absl::Duration rested_since_;
  std::map<Node, std::string> complaints_;
  std::set<Pair> told_;  // that do not reach each other
  // ---- the present round
  bool is_asking_ = false;
  bool is_wanted_again_ = false;  // somebody has come or gone since it began
  int64_t round_ = 0;
  absl::Duration ends_;
  std::vector<Question> questions_;
  std::set<Node> members_, awaited_;
  std::map<Node, std::map<Node, std::string>> silent_;  // of each asker that has reported
};

}  // namespace evermoe
