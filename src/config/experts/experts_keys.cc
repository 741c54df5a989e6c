#include "config/experts/experts_keys.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "config/key_builders.h"

namespace evermoe {
namespace {

using C = JobConfig;
using X = ExpertsConfig;
using enum KeyScope;

constexpr int64_t kRebalanceEveryMax = 1'000'000'000;
// Every set of lanes that shares an expert has a communicator of its own.
constexpr int64_t kLaneSetsMax = 3900;

absl::Status validate_uniform(const JobConfig& config, const KeyPlaces& places) {
  const ExpertsConfig& experts = config.experts;
  const int64_t replicas = config.parallel.expert_replicas;
  if (experts.slots != 0)
    return not_allowed(places, "experts.slots", absl::StrCat(experts.slots),
                       "\"auto\", unless experts.replicas = \"by-load\"");
  if (experts.faults >= replicas)
    return not_allowed(places, "experts.faults", absl::StrCat(experts.faults),
                       absl::StrCat("less than parallel.expert_replicas (", replicas, ")"));
  return absl::OkStatus();
}

absl::Status validate_stage(const JobConfig& config, const KeyPlaces& places, size_t stage) {
  const ExpertsConfig& experts = config.experts;
  const int64_t lanes = config.parallel.lanes[stage], all = config.model.experts;
  const int64_t needed = (all * (experts.faults + 1) + lanes - 1) / lanes;
  const std::string those =
      absl::StrCat("the ", lanes, lanes == 1 ? " lane" : " lanes", " of stage ", stage);
  if (experts.faults >= lanes)
    return not_allowed(places, "experts.faults", absl::StrCat(experts.faults),
                       absl::StrCat("fewer than ", those));
  if (experts.slots > 0 && experts.slots < needed)
    return not_allowed(
        places, "experts.slots", absl::StrCat(experts.slots),
        absl::StrCat("at least ", needed, ", so that ", those, " hold model.experts (", all, ")",
                     experts.faults > 0
                         ? absl::StrCat(" experts.faults + 1 (", experts.faults + 1, ") times")
                         : ""));
  return absl::OkStatus();
}

absl::Status validate_lane_sets(const JobConfig& config, const KeyPlaces& places) {
  const auto stages = static_cast<int64_t>(config.parallel.lanes.size());
  const int64_t layers = (config.model.layers + stages - 1) / stages;
  if (layers * config.model.experts <= kLaneSetsMax) return absl::OkStatus();
  return not_allowed(places, "experts.replicas", "by-load",
                     absl::StrCat("uniform, for a stage has more than ", kLaneSetsMax,
                                  " experts; with more parallel.stages it has fewer"));
}

}  // namespace

std::vector<ConfigKey> experts_keys() {
  return {
      choice_key("experts.replicas", Field{&C::experts, &X::replicas},
                 {{"uniform", ExpertReplicas::kUniform}, {"by-load", ExpertReplicas::kByLoad}},
                 kBits,
                 "uniform: parallel.expert_replicas of every expert, where they are; by-load: as "
                 "many as its load deserves, and they move when loads change"),
      auto_integer_key("experts.slots", Field{&C::experts, &X::slots}, {1, 65536}, kBits,
                       "by-load: experts of a layer that a lane holds; auto: what "
                       "parallel.expert_replicas of each take, and one more"),
      integer_key("experts.faults", Field{&C::experts, &X::faults}, {0, 1023}, kBits,
                  "so many lanes of a stage may be lost at once and every expert has a replica on "
                  "another one"),
      integer_key("experts.rebalance_every_steps", Field{&C::experts, &X::rebalance_every_steps},
                  {1, kRebalanceEveryMax}, kBits,
                  "by-load: at the states that are multiples of this experts may move; loads are "
                  "remembered for a quarter as many steps, at least for 16 if there are so many"),
      number_key("experts.rebalance_gain", Field{&C::experts, &X::rebalance_gain}, {1, 1000}, kBits,
                 "by-load: a layer's experts move if its busiest lane gets less to do by this "
                 "factor")};
}

absl::Status validate_experts(const JobConfig& config, const KeyPlaces& places) {
  if (config.experts.replicas == ExpertReplicas::kUniform) return validate_uniform(config, places);
  if (config.protection.strategy == StrategyKind::kPartialExperts)
    return not_allowed(places, "experts.replicas", "by-load",
                       "uniform with protection.strategy = \"partial-experts\", whose checkpoints "
                       "are laid out for experts that stay where they are");
  for (size_t stage = 0; stage < config.parallel.lanes.size(); ++stage)
    RETURN_IF_ERROR(validate_stage(config, places, stage));
  return validate_lane_sets(config, places);
}

}  // namespace evermoe
