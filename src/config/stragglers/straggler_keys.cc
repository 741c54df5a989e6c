#include "config/stragglers/straggler_keys.h"

#include "absl/strings/str_cat.h"
#include "config/job_strategy.h"
#include "config/key_builders.h"

namespace evermoe {
namespace {

using C = JobConfig;
using S = StragglersConfig;
using enum KeyScope;

}  // namespace

std::vector<ConfigKey> straggler_keys() {
  return {
      number_key("stragglers.slower_than", Field{&C::stragglers, &S::slower_than}, {1, 100, true},
                 kRun,
                 "a role that computes so many times as long as others of its kind is a "
                 "straggler"),
      integer_key("stragglers.for_steps", Field{&C::stragglers, &S::for_steps}, {4, 10'000}, kRun,
                  "the median over so many steps counts; both halves have to be near it"),
      number_key("stragglers.link_slower_than", Field{&C::stragglers, &S::link_slower_than},
                 {1, 100, true}, kRun,
                 "a link whose messages take so many times as long as usual is slow; people are "
                 "told"),
      number_key("stragglers.probe_seconds", Field{&C::stragglers, &S::probe_seconds}, {0, 3600},
                 kRun, "how often a role times messages to another one; 0: never"),
      choice_key("stragglers.action", Field{&C::stragglers, &S::action},
                 {{"tell", StragglerAction::kTell}, {"move", StragglerAction::kMove}}, kRun,
                 "what is done about one: people are told, or it moves to another node if one "
                 "is free and the pause pays off before the job ends")};
}

absl::Status validate_stragglers(const JobConfig& config, const KeyPlaces& places) {
  const bool moves = config.stragglers.action == StragglerAction::kMove;
  if (!moves || strategy_of(config).keeps_copies()) return absl::OkStatus();
  return not_allowed(places, "stragglers.action", quoted("move"),
                     absl::StrCat("\"tell\" with protection.strategy = \"",
                                  std::string(to_string(config.protection.strategy)),
                                  "\", which keeps nothing in peers' memory that a role could be "
                                  "moved by"));
}

}  // namespace evermoe
