#include "control/controller/stragglers/slow_link_watch.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "control/controller/stragglers/robust_statistics.h"

namespace evermoe {
namespace {

constexpr int kMeasurements = 8;  // of a spell, at least
constexpr size_t kSpellsJudged = 3;
constexpr size_t kPastMin = 8, kPastMax = 16;  // spells, before those that are judged
// What noise does not explain is so many times as much as it was before.
constexpr double kTimesNoise = 3;
constexpr size_t kOthersMin = 2;  // links of the same sender, or receiver
// Of the time, that a slow link takes more.
constexpr double kLinkShareMin = 0.02;
// Over TCP a large message may take so many round trips.
constexpr int kTripsOfBulk = 4;
// A link that was not used for so long is forgotten.
constexpr absl::Duration kUnusedMax = absl::Minutes(5);

bool is_sound(const LinkTime& time) {
  const auto is_time = [](absl::Duration d) {
    return d > absl::ZeroDuration() && d < absl::InfiniteDuration();
  };
  const auto is_rate = [](double rate) { return std::isfinite(rate) && rate >= 0; };
  return is_time(time.round_trip) && is_time(time.bulk) && is_rate(time.messages) &&
         is_rate(time.bulks);
}

// REQUIRES: durations.
absl::Duration median_of(const std::vector<absl::Duration>& durations) {
  std::vector<double> seconds;
  for (const absl::Duration one : durations) seconds.push_back(absl::ToDoubleSeconds(one));
  return absl::Seconds(median(std::move(seconds)));
}

template <typename Figures>
LinkFigures median_figures(const Figures& all) {
  std::vector<absl::Duration> round_trips, bulks;
  for (const LinkFigures& one : all) {
    round_trips.push_back(one.round_trip);
    bulks.push_back(one.bulk);
  }
  return {median_of(round_trips), median_of(bulks)};
}

LinkFigures shorter(const LinkFigures& a, const LinkFigures& b) {
  return {std::min(a.round_trip, b.round_trip), std::min(a.bulk, b.bulk)};
}

// A link on which empty messages take longer makes large ones later by as much. Where these take no
// longer the empty ones have waited behind other traffic.
LinkFigures without_waiting(LinkFigures figures, const LinkFigures& usual) {
  const absl::Duration more = std::max(absl::ZeroDuration(), figures.bulk - usual.bulk);
  figures.round_trip = std::min(figures.round_trip, usual.round_trip + more);
  return figures;
}

}  // namespace

double SlowLinkWatch::Traffic::cost(const LinkFigures& figures) const {
  return messages * absl::ToDoubleSeconds(figures.round_trip) / 2 +
         bulks * absl::ToDoubleSeconds(figures.bulk);
}

// ---- what is measured

void SlowLinkWatch::note(absl::Duration now, NodeLink link, Step newest, const LinkTime& time) {
  if (link.from == link.to || !is_sound(time)) return;
  Watched& watched = watched_[link];
  Spell& spell = watched.spell;
  // The job has gone back.
  if (spell.measurements == 0 || newest < spell.first) spell.first = newest;
  ++spell.measurements;
  spell.shortest = shorter(spell.shortest, {time.round_trip, time.bulk});
  spell.sum.messages += time.messages;
  spell.sum.bulks += time.bulks;
  watched.newest = newest;
  watched.heard = now;
  const int64_t steps = newest.value - spell.first.value;
  if (spell.measurements >= kMeasurements && 2 * steps >= options_.for_steps)
    end_spell(link, watched);
}

void SlowLinkWatch::end_spell(NodeLink link, Watched& watched) {
  watched.recent.push_back(std::exchange(watched.spell, {}));
  watched.is_judged_anew = true;
  if (watched.recent.size() <= kSpellsJudged) return;
  const LinkFigures shortest_of_four = shortest(watched), old = watched.recent.front().shortest;
  watched.recent.pop_front();
  if (slow_.contains(link)) return;
  // What seems to have become slow is not usual; single spells are noise.
  const Traffic traffic = this->traffic(watched);
  if (watched.past.size() >= kPastMin &&
      traffic.cost(shortest_of_four) > middle() * traffic.cost(median_figures(watched.past)))
    return;
  watched.past.push_back(old);
  if (watched.past.size() > kPastMax) watched.past.pop_front();
}

void SlowLinkWatch::forget(Node node) {
  const auto is_its = [&](const auto& entry) {
    return entry.first.from == node || entry.first.to == node;
  };
  std::erase_if(watched_, is_its);
  std::erase_if(slow_, is_its);
}

// ---- what is usual

LinkFigures SlowLinkWatch::shortest(const Watched& watched) {
  LinkFigures figures;
  for (const Spell& spell : watched.recent) figures = shorter(figures, spell.shortest);
  return figures;
}

SlowLinkWatch::Traffic SlowLinkWatch::traffic(const Watched& watched) {
  Traffic sum;
  double measurements = 0;
  for (const Spell& spell : watched.recent) {
    sum.messages += spell.sum.messages;
    sum.bulks += spell.sum.bulks;
    measurements += spell.measurements;
  }
  return {sum.messages / measurements, sum.bulks / measurements};
}

SlowLinkWatch::KnownLinks SlowLinkWatch::known_links() const {
  KnownLinks known;
  for (const auto& [link, watched] : watched_) {
    if (watched.past.size() < kPastMin) continue;
    const LinkFigures usual = median_figures(watched.past);
    known.of_sender[link.from].push_back({link, usual});
    known.of_receiver[link.to].push_back({link, usual});
  }
  return known;
}

LinkFigures SlowLinkWatch::usual(NodeLink link, const Watched& watched, const KnownLinks& known) {
  LinkFigures usual = median_figures(watched.past);
  // What a large message would take there if it took as long as on other links of the node at one
  // end, which may be nearer. nullopt: there are too few.
  const auto bulk_of_others =
      [&](const std::vector<KnownLink>& links) -> std::optional<absl::Duration> {
    std::vector<LinkFigures> others;
    for (const KnownLink& other : links) {
      if (other.link != link) others.push_back(other.usual);
    }
    if (others.size() < kOthersMin) return std::nullopt;
    const LinkFigures of_others = median_figures(others);
    const absl::Duration further = usual.round_trip - of_others.round_trip;
    return of_others.bulk + kTripsOfBulk * std::max(further, absl::ZeroDuration());
  };
  const auto of_sender = bulk_of_others(known.of_sender.at(link.from));
  const auto of_receiver = bulk_of_others(known.of_receiver.at(link.to));
  if (of_sender && of_receiver)
    usual.bulk = std::min(usual.bulk, std::max(*of_sender, *of_receiver));
  return usual;
}

int SlowLinkWatch::known() const {
  return static_cast<int>(std::ranges::count_if(
      watched_, [](const auto& one) { return one.second.past.size() >= kPastMin; }));
}

// ---- who is slow

std::vector<SlowLinkWatch::Finding> SlowLinkWatch::look(absl::Duration now,
                                                        const std::set<Node>& slow_nodes) {
  std::vector<Finding> findings;
  const bool is_any_judged =
      std::ranges::any_of(watched_, [](const auto& one) { return one.second.is_judged_anew; });
  const KnownLinks known = is_any_judged ? known_links() : KnownLinks{};
  for (auto& [link, watched] : watched_) {
    const bool is_unused = now - watched.heard > kUnusedMax;
    if (is_unused && slow_.contains(link))
      findings.push_back({.link = link, .factor = slow_[link], .step = watched.newest});
    const bool is_explained = slow_nodes.contains(link.from) || slow_nodes.contains(link.to);
    if (is_explained && !slow_.contains(link)) {
      // What was measured meanwhile tells nothing of the link afterwards, either.
      watched.spell = {};
      watched.recent.clear();
      watched.is_judged_anew = false;
      continue;
    }
    if (!std::exchange(watched.is_judged_anew, false) || is_unused) continue;
    if (const auto finding = judge(link, watched, known)) findings.push_back(*finding);
  }
  std::erase_if(watched_, [&](const auto& one) { return now - one.second.heard > kUnusedMax; });
  for (const Finding& finding : findings) {
    if (finding.is_slow) {
      slow_[finding.link] = finding.factor;
    } else {
      slow_.erase(finding.link);
      if (const auto its = watched_.find(finding.link); its != watched_.end())
        its->second.recent.clear();  // some were slow, and are not to be taken for noise
    }
  }
  return findings;
}

std::optional<SlowLinkWatch::Finding> SlowLinkWatch::judge(NodeLink link, const Watched& watched,
                                                           const KnownLinks& known) const {
  if (watched.past.size() < kPastMin || watched.recent.size() < kSpellsJudged) return std::nullopt;
  const LinkFigures usual = SlowLinkWatch::usual(link, watched, known);
  const LinkFigures now = without_waiting(shortest(watched), usual);
  const Traffic traffic = this->traffic(watched);
  const double before = traffic.cost(usual);
  if (before <= 0) return std::nullopt;
  const double factor = traffic.cost(now) / before, more = traffic.cost(now) - before;
  Finding finding{link, true, factor, now, usual, watched.newest};
  if (slow_.contains(link)) {
    finding.is_slow = false;
    finding.factor = typical_factor(watched, usual);
    return finding.factor < middle() ? std::optional(finding) : std::nullopt;
  }
  const bool is_slow = factor >= options_.link_slower_than && more >= kLinkShareMin &&
                       more >= kTimesNoise * noise_before(watched, traffic);
  return is_slow ? std::optional(finding) : std::nullopt;
}

double SlowLinkWatch::noise_before(const Watched& watched, const Traffic& traffic) {
  double longest = 0;
  for (const LinkFigures& spell : watched.past) longest = std::max(longest, traffic.cost(spell));
  return longest - traffic.cost(median_figures(watched.past));
}

double SlowLinkWatch::typical_factor(const Watched& watched, const LinkFigures& usual) {
  std::vector<LinkFigures> of_spells;
  for (const Spell& spell : watched.recent) of_spells.push_back(spell.shortest);
  const Traffic traffic = SlowLinkWatch::traffic(watched);
  return traffic.cost(without_waiting(median_figures(of_spells), usual)) / traffic.cost(usual);
}

}  // namespace evermoe
