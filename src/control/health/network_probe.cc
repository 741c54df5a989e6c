#include "control/health/network_probe.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {
namespace {

// Of the partners that do not answer, in a complaint.
constexpr size_t kShownPartnersMax = 3;

// The partners of each node, and why they do not reach each other; empty: they do.
using Partners = std::map<Node, std::map<Node, std::string>>;

Partners partners_in(const std::vector<QuestionResult>& results) {
  Partners partners;
  for (const auto& [question, trouble] : results) {
    // Both may have asked; one that got no answer is enough.
    for (std::string* one :
         {&partners[question.asker][question.asked], &partners[question.asked][question.asker]}) {
      if (one->empty()) *one = trouble;
    }
  }
  return partners;
}

struct Share {
  size_t cut = 0, all = 0;
  bool is_less_than(const Share& other) const { return cut * other.all < other.cut * all; }
  // One line that fails says nothing of its ends.
  bool is_damning() const { return cut > 1 && 2 * cut > all; }
};

Share share_of(const std::map<Node, std::string>& partners, const std::set<Node>& among) {
  Share share;
  for (const auto& [partner, trouble] : partners) {
    if (!among.contains(partner)) continue;
    ++share.all;
    share.cut += trouble.empty() ? 0 : 1;
  }
  return share;
}

// Those of whom most partners among `left` are cut off, and whom nobody surpasses.
std::set<Node> worst(const Partners& partners, const std::set<Node>& left) {
  std::set<Node> worst;
  Share most;
  for (const Node node : left) {
    const Share share = share_of(partners.at(node), left);
    if (!share.is_damning() || share.is_less_than(most)) continue;
    if (most.is_less_than(share)) worst.clear();
    most = share;
    worst.insert(node);
  }
  return worst;
}

std::string complaint_of(const std::map<Node, std::string>& partners, const std::set<Node>& among) {
  const Share share = share_of(partners, among);
  std::vector<std::string> who;
  for (const auto& [partner, trouble] : partners) {
    if (among.contains(partner) && !trouble.empty() && who.size() < kShownPartnersMax)
      who.push_back(absl::StrCat("node ", partner.value, ": ", trouble));
  }
  if (share.cut > who.size()) who.emplace_back("...");
  return absl::StrCat("network: ", share.cut, " of ", share.all, " machines cannot be reached (",
                      absl::StrJoin(who, ", "), ")");
}

}  // namespace

// The nodes stand in a circle, and each asks those at some distances ahead of it. A distance and
// the rest of the circle are the same pairs, so half of the distances are enough. They are far from
// each other, because neighbours often have one switch.
std::vector<Question> questions_of(std::vector<Node> nodes, int64_t round) {
  std::ranges::sort(nodes);
  const size_t half = nodes.size() / 2;
  const size_t distances = std::min<size_t>(kPartnersMax, half);
  std::vector<Question> questions;
  for (size_t d = 0; d < distances; ++d) {
    const size_t distance = 1 + (static_cast<size_t>(round) + d * half / distances) % half;
    for (size_t i = 0; i < nodes.size(); ++i)
      questions.push_back({nodes[i], nodes[(i + distance) % nodes.size()]});
  }
  return questions;
}

int64_t rounds_until_all_have_met(size_t nodes) {
  const size_t half = nodes / 2;
  const size_t distances = std::min<size_t>(kPartnersMax, half);
  return distances == 0 ? 0 : static_cast<int64_t>((half + distances - 1) / distances);
}

// From the worst to the better: what a machine at fault does not answer is no fault of those that
// asked it. Where all that are left are equally bad nobody is to blame.
NetworkVerdict judge_network(const std::vector<QuestionResult>& results) {
  const Partners partners = partners_in(results);
  std::set<Node> left;
  for (const auto& [node, of_node] : partners) left.insert(node);
  NetworkVerdict verdict;
  for (;;) {
    const std::set<Node> at_fault = worst(partners, left);
    if (at_fault.empty() || at_fault.size() == left.size()) break;
    for (const Node node : at_fault) verdict.unfit[node] = complaint_of(partners.at(node), left);
    for (const Node node : at_fault) left.erase(node);
  }
  for (const Node node : left) {
    const Share share = share_of(partners.at(node), left);
    if (share.all > share.cut && 2 * share.cut <= share.all) verdict.fit.insert(node);
    for (const auto& [partner, trouble] : partners.at(node)) {
      if (node < partner && left.contains(partner) && !trouble.empty())
        verdict.cut.push_back({{node, partner}, trouble});
    }
  }
  return verdict;
}

}  // namespace evermoe
