#include "config/elastic/elastic_keys.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/limits.h"
#include "config/key_builders.h"

namespace evermoe {
namespace {

using C = JobConfig;
using E = ElasticConfig;
using enum KeyScope;
constexpr int64_t kStepMax = 1'000'000'000;
constexpr size_t kHistoryBytesMax = 64 << 10;

std::optional<LaneHistoryEntry> parse_entry(const std::string& text) {
  LaneHistoryEntry entry;
  const std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  if (words.size() < 2 || !absl::SimpleAtoi(words[0], &entry.step)) return std::nullopt;
  if (entry.step < 0 || entry.step > kStepMax) return std::nullopt;
  for (size_t i = 1; i < words.size(); ++i) {
    int lanes = 0;
    if (!absl::SimpleAtoi(words[i], &lanes) || lanes < 1 || lanes > kJobRanksMax)
      return std::nullopt;
    entry.lanes.push_back(lanes);
  }
  return entry;
}

ConfigKey history_key() {
  const Field field{&C::elastic, &E::history};
  ConfigKey key{"elastic.history",
                "text: empty, or STEP LANES LANES ..., STEP LANES LANES ... with a number of lanes "
                "for each stage and ascending steps",
                "which lanes train from which step on, whatever happens: repeats the bits of a job "
                "from the membership_history of its summary; empty: no such thing",
                kRun};
  key.is_text = true;
  key.read = [=](const FoundValue& found, JobConfig& config) {
    const std::string* const text = std::get_if<std::string>(&found.value);
    if (text == nullptr || !parse_lane_history(*text)) return false;
    field.in(config) = *text;
    return true;
  };
  key.write = [=](const JobConfig& config) { return quoted(field.in(config)); };
  return key;
}

std::string widths_text(const ElasticConfig& elastic) {
  return absl::StrCat("[", absl::StrJoin(elastic.widths, ", "), "]");
}

ConfigKey widths_key() {
  const Field field{&C::elastic, &E::widths};
  ConfigKey key{"elastic.widths",
                absl::StrCat("array of ascending integers from 1 to ", kJobRanksMax),
                "numbers of lanes with which a stage may train, of which it takes the largest that "
                "it can; empty: any number, and so all lanes that there are nodes for",
                kRun};
  key.read = [=](const FoundValue& found, JobConfig& config) {
    const auto* const widths = std::get_if<std::vector<int64_t>>(&found.value);
    if (widths == nullptr) return false;
    int64_t last = 0;
    for (const int64_t width : *widths) {
      if (width <= last || width > kJobRanksMax) return false;
      last = width;
    }
    field.in(config) = *widths;
    return true;
  };
  key.write = [](const JobConfig& config) { return widths_text(config.elastic); };
  return key;
}

}  // namespace

std::optional<std::vector<LaneHistoryEntry>> parse_lane_history(const std::string& text) {
  std::vector<LaneHistoryEntry> history;
  if (text.empty()) return history;
  if (text.size() > kHistoryBytesMax) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    std::optional<LaneHistoryEntry> entry = parse_entry(part);
    if (!entry || (!history.empty() && entry->step <= history.back().step)) return std::nullopt;
    history.push_back(*std::move(entry));
  }
  return history;
}

std::vector<LaneHistoryEntry> lane_history_of(const JobConfig& config) {
  return parse_lane_history(config.elastic.history).value();
}

std::vector<ConfigKey> elastic_keys() {
  return {
      bool_key("elastic.enabled", Field{&C::elastic, &E::enabled}, kRun,
               "the job goes on with fewer lanes when a machine is lost that nobody replaces, and "
               "with more when machines come"),
      integer_key("elastic.min_nodes", Field{&C::elastic, &E::min_nodes}, {1, kJobNodesMax}, kRun,
                  "with fewer nodes an elastic job saves and ends; memory is set aside for as few "
                  "lanes as that may leave"),
      number_key("elastic.grow_wait_seconds", Field{&C::elastic, &E::grow_wait_seconds}, {0, 3600},
                 kRun, "how long a node that has come waits for others before it is used"),
      widths_key(), history_key()};
}

absl::Status validate_elastic(const JobConfig& config, const KeyPlaces& places) {
  const ElasticConfig& elastic = config.elastic;
  const bool is_elastic = elastic.enabled || !elastic.history.empty();
  if (!elastic.widths.empty() && !elastic.enabled)
    return not_allowed(places, "elastic.widths", widths_text(elastic),
                       "[] without elastic.enabled = true");
  if (!is_elastic) return absl::OkStatus();
  const char* const key = elastic.enabled ? "elastic.enabled" : "elastic.history";
  if (config.protection.strategy == StrategyKind::kPartialExperts)
    return not_allowed(places, key, elastic.enabled ? "true" : elastic.history,
                       "nothing with protection.strategy = \"partial-experts\", whose checkpoints "
                       "are laid out for all lanes");
  if (elastic.enabled && !elastic.history.empty())
    return not_allowed(places, "elastic.history", elastic.history,
                       "empty with elastic.enabled = true");
  if (elastic.min_nodes > config.run.nodes)
    return not_allowed(places, "elastic.min_nodes", absl::StrCat(elastic.min_nodes),
                       absl::StrCat("at most run.nodes (", config.run.nodes, ")"));
  const int64_t most = std::ranges::max(config.parallel.lanes);
  if (!elastic.widths.empty() && elastic.widths.back() > most)
    return not_allowed(places, "elastic.widths", widths_text(elastic),
                       absl::StrCat("at most the lanes of a stage (", most, ")"));
  for (const LaneHistoryEntry& entry : lane_history_of(config)) {
    const auto& lanes = config.parallel.lanes;
    if (std::ssize(entry.lanes) != std::ssize(lanes))
      return not_allowed(places, "elastic.history",
                         absl::StrCat(entry.lanes.size(), " numbers of lanes at step ", entry.step),
                         absl::StrCat("one for each of parallel.stages (", lanes.size(), ")"));
    for (size_t stage = 0; stage < lanes.size(); ++stage) {
      if (entry.lanes[stage] <= lanes[stage]) continue;
      return not_allowed(
          places, "elastic.history",
          absl::StrCat(entry.lanes[stage], " lanes of stage ", stage, " at step ", entry.step),
          absl::StrCat("at most those of parallel.lanes (", lanes[stage], ")"));
    }
  }
  return absl::OkStatus();
}

}  // namespace evermoe
