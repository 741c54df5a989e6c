#include "control/controller/beginning/job_beginning.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {

JobBeginning::JobBeginning(const ControllerOptions& options, absl::Duration now)
    : options_(options),
      adoption_ends_(now + options.adoption),
      find_ends_(now + std::max(options.adoption, options.find_max)),
      begin_ends_(now + std::max(options.adoption, options.begin_max)),
      moved_(now) {}

BeginningDecision JobBeginning::decide(absl::Duration now, const RoleTable& roles,
                                       const NodeTable& nodes, AdoptedView view) {
  if (auto wait = wait_for_nodes(now, nodes)) return *std::move(wait);
  if (auto wait = wait_for_fit_nodes(now, nodes)) return *std::move(wait);
  const bool complete = roles.are_all_joined();
  const bool expects_nobody =
      !options_.takes_over && nodes.known() - std::ssize(nodes.unfit()) >= options_.nodes;
  if (!complete && !expects_nobody && now < members_deadline(nodes, view)) return {};
  if (auto wait = wait_for_network(now)) return *std::move(wait);
  is_over_ = true;
  if (complete && view.is_open) return {.kind = Kind::kGoOn};
  return {.kind = Kind::kOpenView,
          .why = view.number == View(0) ? "the job begins" : "a new controller takes over"};
}

absl::Duration JobBeginning::deadline(const NodeTable& nodes, AdoptedView view) const {
  if (is_over_) return absl::InfiniteDuration();
  if (fit_ends_) return *fit_ends_;
  return network_ends_ ? *network_ends_ : members_deadline(nodes, view);
}

// What is there would do, but roles do not move to who comes later.
std::optional<BeginningDecision> JobBeginning::wait_for_nodes(absl::Duration now,
                                                              const NodeTable& nodes) {
  if (options_.takes_over || nodes.known() >= options_.nodes || now >= begin_ends_)
    return std::nullopt;
  if (now < adoption_ends_ || std::exchange(is_missing_told_, true)) return BeginningDecision{};
  return BeginningDecision{
      .news = absl::StrCat(nodes.known(), " of the ", options_.nodes,
                           " machines that the job needs are there: it waits for the others, at "
                           "most ",
                           absl::FormatDuration(options_.begin_max))};
}

// A job that asks for so many machines does not begin on fewer because some are not fit: others may
// still come, or these pass a later check, but not for ever.
std::optional<BeginningDecision> JobBeginning::wait_for_fit_nodes(absl::Duration now,
                                                                  const NodeTable& nodes) {
  if (options_.takes_over) return std::nullopt;
  const std::vector<Node> unfit = nodes.unfit();
  if (unfit.empty() || nodes.up() >= options_.nodes) {
    fit_ends_.reset();
    return std::nullopt;
  }
  const std::string too_few = absl::StrCat(nodes.up(), " of the ", options_.nodes,
                                           " machines that the job needs are there and fit");
  std::string news;
  if (!fit_ends_) {
    fit_ends_ = now + options_.fit_max;
    news = absl::StrCat(too_few, ": the job waits for others, at most ",
                        absl::FormatDuration(options_.fit_max));
  }
  if (now < *fit_ends_) return BeginningDecision{.news = std::move(news)};
  std::vector<std::string> who;
  for (const Node node : unfit)
    who.push_back(
        absl::StrCat("node ", node.value, ": ", absl::StrJoin(nodes.complaints(node), "; ")));
  return BeginningDecision{.kind = Kind::kRefuse,
                           .why = absl::StrCat(too_few, ": ", absl::StrJoin(who, "; ")),
                           .news = std::move(news)};
}

// Whether machines reach each other is known when roles are given, but nothing waits for that for
// long: a machine that is cut off is found later, too.
std::optional<BeginningDecision> JobBeginning::wait_for_network(absl::Duration now) {
  if (options_.takes_over || options_.network_max == absl::ZeroDuration() || is_network_checked_)
    return std::nullopt;
  if (!network_ends_) {
    network_ends_ = now + options_.network_max;
    return BeginningDecision{.kind = Kind::kCheckNetwork};
  }
  if (now < *network_ends_) return BeginningDecision{};
  return std::nullopt;
}

// Who is absent may only be cut off from here: a view goes on as long as all its members live, and
// when one dies others miss it and say so, unless it has died in silence. A view without commits is
// taken to go on for as long as an agent may be silent meanwhile (relay/agent_losses.h).
absl::Duration JobBeginning::members_deadline(const NodeTable& nodes, AdoptedView view) const {
  const int missing = options_.nodes + options_.spares - nodes.known();
  if (!options_.takes_over && nodes.known() < options_.nodes) return begin_ends_;
  const absl::Duration ends = options_.takes_over && missing > 1 ? find_ends_ : adoption_ends_;
  if (!view.is_open || has_heard_trouble_ || missing < 1) return ends;
  return std::max(ends, moved_ + options_.goes_on_max);
}

}  // namespace evermoe
