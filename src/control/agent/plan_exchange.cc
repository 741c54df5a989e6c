#include "control/agent/plan_exchange.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace evermoe {

// ---- what this agent wants

PlanActions PlanExchange::fetch(absl::Duration now, const FetchPlan& order) {
  fetch_ = Fetch{order, now + order.patience};
  return {AskForPlan{order.from, order.plan}};
}

std::optional<PlanExchange::Fetched> PlanExchange::take(const Plan& plan) {
  if (!fetch_ || name_of(plan) != fetch_->order.plan) return std::nullopt;
  absl::StatusOr<Plan> whole = apply_update(&plan, fetch_->order.rest);
  if (!whole.ok()) return std::nullopt;
  const Fetch done = *std::exchange(fetch_, std::nullopt);
  return Fetched{*std::move(whole), done.order.rest.to};
}

PlanActions PlanExchange::give_up(const std::string& why) {
  if (!fetch_ || std::exchange(fetch_->is_controller_asked, true)) return {};
  return {StopAsking{why}, AskController{fetch_->order.plan}};
}

PlanActions PlanExchange::forget_before(View view) {
  if (!fetch_ || fetch_->order.plan.view >= view) return {};
  fetch_.reset();
  return {StopAsking{}};
}

// ---- what others want

PlanActions PlanExchange::on_asked(absl::Duration now, StreamNumber asker, PlanName wanted,
                                   PlanName have) {
  const bool is_known = askers_.contains(asker);
  const bool never = wanted.view == View(0) || (have != wanted && have.view >= wanted.view);
  if (is_known || never || askers_.size() >= kAskersMax) {
    askers_.erase(asker);
    return {CutAsker{asker}};
  }
  askers_[asker] = {wanted, now + kAskerMax, have == wanted};
  if (have == wanted) return {TellPlan{{asker}}};
  return {};
}

bool PlanExchange::is_anybody_waiting() const {
  return std::any_of(askers_.begin(), askers_.end(),
                     [](const auto& asker) { return !asker.second.is_told; });
}

PlanActions PlanExchange::on_plan(PlanName have) {
  PlanActions actions;
  TellPlan tell;
  for (auto at = askers_.begin(); at != askers_.end();) {
    auto& [stream, asker] = *at;
    if (!asker.is_told && asker.wanted == have) {
      asker.is_told = true;
      tell.to.push_back(stream);
    } else if (!asker.is_told && asker.wanted.view <= have.view) {
      actions.emplace_back(CutAsker{stream});
      at = askers_.erase(at);
      continue;
    }
    ++at;
  }
  if (!tell.to.empty()) actions.emplace_back(std::move(tell));
  return actions;
}

// ---- time

PlanActions PlanExchange::on_time(absl::Duration now) {
  PlanActions actions;
  if (fetch_ && now >= fetch_->due)
    actions =
        give_up(absl::StrCat("no answer within ", absl::FormatDuration(fetch_->order.patience)));
  for (auto at = askers_.begin(); at != askers_.end();) {
    if (now < at->second.until) {
      ++at;
      continue;
    }
    actions.emplace_back(CutAsker{at->first});
    at = askers_.erase(at);
  }
  return actions;
}

absl::Duration PlanExchange::next_due() const {
  absl::Duration due = absl::InfiniteDuration();
  if (fetch_ && !fetch_->is_controller_asked) due = fetch_->due;
  for (const auto& [stream, asker] : askers_) due = std::min(due, asker.until);
  return due;
}

}  // namespace evermoe
