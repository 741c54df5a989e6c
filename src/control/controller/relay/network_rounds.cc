#include "control/controller/relay/network_rounds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace evermoe {

NetworkRounds::NetworkRounds(NetworkPace pace, absl::Duration round_max, bool is_begun,
                             absl::Duration now)
    : pace_(pace),
      round_max_(round_max),
      is_begun_(is_begun),
      schedule_(pace.pauses),
      rested_since_(now) {}

// ---- when

void NetworkRounds::want(absl::Duration now) {
  if (round_max_ == absl::ZeroDuration()) return;
  is_begun_ = true;
  due_ = now;
}

void NetworkRounds::on_joined(absl::Duration now) {
  if (!is_begun_ || round_max_ == absl::ZeroDuration()) return;
  is_wanted_again_ = is_asking_;
  due_ = std::min(due_, std::max(now, rested_since_ + pace_.pauses.first));
}

void NetworkRounds::on_lost(absl::Duration now, Node node) {
  awaited_.erase(node);
  members_.erase(node);
  if (!complaints_.empty()) on_joined(now);
}

absl::Duration NetworkRounds::next_due() const {
  if (!is_asking_) return due_;
  return awaited_.empty() ? -absl::InfiniteDuration() : ends_;
}

// ---- a round

std::vector<NetworkRounds::Order> NetworkRounds::begin(
    absl::Duration now, const std::vector<AskPartners::Partner>& members) {
  is_asking_ = true;
  ends_ = now + round_max_;
  members_.clear();
  silent_.clear();
  std::map<Node, Order> orders;
  std::map<Node, std::string> lines;
  for (const AskPartners::Partner& member : members) {
    members_.insert(member.node);
    lines[member.node] = member.lines;
    orders[member.node] = {member.node, {round_, pace_.answer_max, {}}};
  }
  questions_ = questions_of({members_.begin(), members_.end()}, round_);
  for (const Question& question : questions_)
    orders[question.asker].order.partners.push_back({question.asked, lines[question.asked]});
  std::vector<Order> result;
  awaited_.clear();
  for (auto& [node, order] : orders) {
    if (order.order.partners.empty()) continue;
    awaited_.insert(node);
    result.push_back(std::move(order));
  }
  return result;
}

void NetworkRounds::on_report(Node from, const PartnersAsked& report) {
  if (!is_asking_ || report.round != round_ || awaited_.erase(from) == 0) return;
  for (const PartnersAsked::Silent& one : report.silent)
    silent_[from][one.node] = one.why.empty() ? "no answer" : one.why;
  silent_.try_emplace(from);
}

bool NetworkRounds::is_over(absl::Duration now) const {
  return is_asking_ && (awaited_.empty() || now >= ends_);
}

std::vector<QuestionResult> NetworkRounds::results() const {
  std::vector<QuestionResult> results;
  for (const Question& question : questions_) {
    const auto report = silent_.find(question.asker);
    if (report == silent_.end() || !members_.contains(question.asker) ||
        !members_.contains(question.asked))
      continue;
    const auto why = report->second.find(question.asked);
    results.push_back({question, why == report->second.end() ? "" : why->second});
  }
  return results;
}

std::vector<std::string> NetworkRounds::take(absl::Duration now) {
  const NetworkVerdict verdict = judge_network(results());
  settle(verdict);
  std::vector<std::string> story = tell_pairs(verdict);
  is_asking_ = false;
  ++round_;
  rested_since_ = now;
  schedule_.on_verdict(now, complaints_.empty());
  due_ = schedule_.due();
  if (std::exchange(is_wanted_again_, false)) on_joined(now);
  return story;
}

// A machine of which a round says nothing is as fit as it was.
void NetworkRounds::settle(const NetworkVerdict& verdict) {
  for (const auto& [node, complaint] : verdict.unfit) complaints_[node] = complaint;
  for (const Node node : verdict.fit) complaints_.erase(node);
  const bool is_any_fit =
      std::ranges::any_of(members_, [&](Node node) { return !complaints_.contains(node); });
  if (!is_any_fit) complaints_.clear();
}

std::vector<std::string> NetworkRounds::tell_pairs(const NetworkVerdict& verdict) {
  const auto names = [](const Pair& pair) {
    return absl::StrCat("node ", pair.first.value, " and node ", pair.second.value);
  };
  std::vector<std::string> story;
  std::map<Pair, std::string> cut;
  for (const auto& [question, trouble] : verdict.cut)
    cut[std::minmax(question.asker, question.asked)] = trouble;
  for (const auto& [pair, trouble] : cut) {
    if (told_.insert(pair).second)
      story.push_back(absl::StrCat("network: ", names(pair), " do not reach each other: ", trouble,
                                   "; which of them is at fault cannot be told"));
  }
  for (const auto& [question, trouble] : results()) {
    const Pair pair = std::minmax(question.asker, question.asked);
    if (!cut.contains(pair) && !complaints_.contains(pair.first) &&
        !complaints_.contains(pair.second) && told_.erase(pair) > 0)
      story.push_back(absl::StrCat("network: ", names(pair), " reach each other again"));
  }
  return story;
}

std::string NetworkRounds::complaint(Node node) const {
  const auto found = complaints_.find(node);
  return found == complaints_.end() ? "" : found->second;
}

}  // namespace evermoe
