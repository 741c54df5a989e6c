#include "planner/report/tier_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/cost/tier_costs.h"
#include "planner/report/amount_text.h"

namespace evermoe {
namespace {

int64_t steps_of(const TierInterval& interval, const ProtectionPlan& plan) {
  return std::max<int64_t>(1, std::llround(interval.work_seconds / plan.step.profile.step_seconds));
}

std::variant<TierAdvice, ProtectionRefused> advice_for(const ProtectionPlan& plan) {
  return price_tiers(plan.step.profile, plan.cluster, plan.budget.copies);
}

}  // namespace

std::string tiers_text(const ProtectionPlan& plan) {
  const auto priced = advice_for(plan);
  if (const auto* refused = std::get_if<ProtectionRefused>(&priced))
    return absl::StrCat("saves of the whole state, by tier: not possible, ", refused->reason, "\n");
  const TierAdvice& advice = std::get<TierAdvice>(priced);
  std::string text = absl::StrCat("saves of the whole state, by tier (",
                                  percent_text(advice.plan.waste), " of the time lost)\n");
  std::string below;
  for (const TierInterval& interval : advice.plan.intervals) {
    const std::string& name = advice.tiers[static_cast<size_t>(interval.tier)].name;
    absl::StrAppendFormat(&text, "  %-15s every %d steps (%s)", name, steps_of(interval, plan),
                          duration_text(interval.work_seconds));
    if (interval.every > 1)
      absl::StrAppendFormat(&text, ", with one in %d saves to %s", interval.every, below);
    text += "\n";
    below = name;
  }
  for (const std::string& reason : advice.plan.reasons)
    absl::StrAppend(&text, "  * ", reason, "\n");
  return text;
}

nlohmann::ordered_json tiers_json(const ProtectionPlan& plan) {
  const auto priced = advice_for(plan);
  if (const auto* refused = std::get_if<ProtectionRefused>(&priced))
    return {{"refused", refused->reason}};
  const TierAdvice& advice = std::get<TierAdvice>(priced);
  nlohmann::ordered_json json;
  json["tiers"] = nlohmann::ordered_json::array();
  for (const TierInterval& interval : advice.plan.intervals) {
    const CheckpointTier& tier = advice.tiers[static_cast<size_t>(interval.tier)];
    json["tiers"].push_back({{"name", tier.name},
                             {"work_seconds", interval.work_seconds},
                             {"every_steps", steps_of(interval, plan)},
                             {"every_saves_of_tier_below", interval.every},
                             {"save_seconds", tier.save_seconds},
                             {"restart_seconds", tier.restart_seconds}});
  }
  json["waste"] = advice.plan.waste;
  json["reasons"] = advice.plan.reasons;
  return json;
}

}  // namespace evermoe
