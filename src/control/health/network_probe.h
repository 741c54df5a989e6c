// Whether machines reach each other: who asks whom, and which machine is at fault. Pure.
//
// Of a line that fails only both ends together can be said to be at fault. So machines are asked
// for in rounds: each asks a few others, its partners, and is asked by as many. Who does not reach
// most of its partners, while these reach most of theirs, is not fit to play a role. The cost of a
// round is linear in the machines; partners change from round to round, until all have met.
//
// Where nobody can be blamed, nobody is:
// * Two machines that do not reach each other, though both reach others: that is told, no more.
// * Two machines alone, or halves of a cluster that do not reach each other: there is no majority
//   that would say who is at fault, and ports that are closed for questions may be open for
//   training. A job that goes on may find a way, one that waits cannot.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/controller/controller_interface.h"

namespace evermoe {

// Whom a machine asks in a round. It is asked by as many: so two that are at fault by chance among
// its six partners do not make it look so itself.
inline constexpr int kPartnersMax = 3;

struct Question {
  Node asker, asked;
  bool operator==(const Question&) const = default;
};
// Of a round among these nodes, which are all different. Nobody asks himself, nor anybody twice.
std::vector<Question> questions_of(std::vector<Node> nodes, int64_t round);
// So many rounds one after the other, and every two of so many nodes have met.
int64_t rounds_until_all_have_met(size_t nodes);

struct QuestionResult {
  Question question;
  std::string trouble;  // why no answer came; empty: it came
};

struct NetworkVerdict {
  std::map<Node, std::string> unfit;  // with the complaint
  std::set<Node> fit;                 // those that have been seen to reach half of their partners
  // Pairs that do not reach each other, of which neither is unfit.
  std::vector<QuestionResult> cut;
};
// Of a round. A question whose result is not known is not there.
NetworkVerdict judge_network(const std::vector<QuestionResult>& results);

}  // namespace evermoe
