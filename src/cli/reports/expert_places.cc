#include "cli/reports/expert_places.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "experts/placement/load_sharing.h"
#include "experts/placement/survival.h"

namespace evermoe {
namespace {

// Of more experts only how many have how many replicas.
constexpr size_t kShownExpertsMax = 16;
constexpr double kSure = 1 - 1e-12;

ExpertPlaces places_of(const LayerBalance& layer) {
  ExpertPlaces places{.lanes = static_cast<int>(layer.experts_of.size()),
                      .replicas = std::vector<int>(layer.loads.size()),
                      .on = layer.experts_of};
  for (const std::vector<int>& on_lane : layer.experts_of) {
    for (const int expert : on_lane) ++places.replicas[static_cast<size_t>(expert)];
  }
  if (places.lanes == 0) return places;
  places.imbalance = slowdown_of(layer.loads, layer.experts_of);
  const auto curve = survival_curve(layer.experts_of, static_cast<int>(layer.loads.size()));
  if (curve.ok()) places.survives.assign(curve->survived.begin() + 1, curve->survived.end());
  return places;
}

std::string replicas_text(const ExpertPlaces& places) {
  if (places.replicas.size() <= kShownExpertsMax)
    return absl::StrCat("replicas ", absl::StrJoin(places.replicas, " "));
  std::map<int, int> experts;  // by replicas
  for (const int replicas : places.replicas) ++experts[replicas];
  return absl::StrJoin(experts, ", ", [](std::string* text, const auto& entry) {
    absl::StrAppend(text, entry.second, entry.second == 1 ? " expert" : " experts", " with ",
                    entry.first, entry.first == 1 ? " replica" : " replicas");
  });
}

// What is sure, and the first number of lost lanes that is not.
std::string survival_text(const std::vector<double>& survives) {
  size_t sure = 0;
  while (sure < survives.size() && survives[sure] > kSure) ++sure;
  std::string text =
      sure == 0 ? "survives no lost lane for sure"
                : absl::StrCat("survives any ", sure, sure == 1 ? " lost lane" : " lost lanes");
  if (sure < survives.size() && survives[sure] > 0)
    absl::StrAppendFormat(&text, ", %d with %.1f %%", sure + 1, 100 * survives[sure]);
  return text;
}

}  // namespace

std::vector<ExpertPlaces> expert_places(const ExpertBalance& balance) {
  std::vector<ExpertPlaces> places;
  for (const LayerBalance& layer : balance) places.push_back(places_of(layer));
  return places;
}

std::string to_text(const std::vector<ExpertPlaces>& places) {
  std::string text;
  for (size_t l = 0; l < places.size(); ++l) {
    const ExpertPlaces& layer = places[l];
    if (layer.lanes == 0) continue;
    absl::StrAppendFormat(&text, "MoE layer %d: %s on %d %s, the busiest %.2f times the mean", l,
                          replicas_text(layer), layer.lanes, layer.lanes == 1 ? "lane" : "lanes",
                          layer.imbalance);
    if (!layer.survives.empty()) absl::StrAppend(&text, "; ", survival_text(layer.survives));
    absl::StrAppend(&text, "\n");
  }
  return text;
}

nlohmann::ordered_json to_json_value(const std::vector<ExpertPlaces>& places) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ExpertPlaces& layer : places) {
    json.push_back({{"lanes", layer.lanes},
                    {"replicas", layer.replicas},
                    {"experts_of_lanes", layer.on},
                    {"imbalance", layer.imbalance},
                    {"survives", layer.survives}});
  }
  return json;
}

}  // namespace evermoe
