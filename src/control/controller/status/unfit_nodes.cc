// What a controller does with machines that are not fit to play a role
// (control/health/node_health.h): they get none, whatever is needed, until they pass a later check;
// what they play they go on playing.

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/controller/controller_core.h"
#include "control/health/node_health.h"

namespace evermoe {

void ControllerCore::handle(const NodeChecked& event) {
  if (nodes_.is_there(event.node)) check(event.node, event.complaints);
}

// What it measures changes all the time: only that it is fit, or is not, is told, and what was
// found in the end of one that had not measured itself in time.
void ControllerCore::check(Node node, const std::vector<std::string>& complaints) {
  const std::vector<std::string> before = nodes_.complaints(node);
  const bool was_fit = before.empty();
  const bool was_measured = before != std::vector<std::string>{kNotMeasured};
  nodes_.check(node, complaints);
  if ((was_fit || !was_measured) && !complaints.empty() && complaints != before) {
    tell(absl::StrCat("node ", node.value, " is left out: its machine is not fit to play a role: ",
                      absl::StrJoin(complaints, "; ")));
  } else if (!was_fit && complaints.empty()) {
    tell(absl::StrCat("node ", node.value, " is fit again"));
  }
}

// At the beginning of a job. What is there would do, but roles do not move to who comes later.
bool ControllerCore::waits_for_nodes() {
  if (options_.takes_over || nodes_.known() >= options_.nodes || now_ >= begin_ends_) return false;
  if (now_ >= adoption_ends_ && !std::exchange(is_missing_told_, true))
    tell(absl::StrCat(nodes_.known(), " of the ", options_.nodes,
                      " machines that the job needs are there: it waits for the others, at most ",
                      absl::FormatDuration(options_.begin_max)));
  return true;
}

// A job that asks for so many machines does not begin on fewer because some are not fit: others may
// still come, or these pass a later check, but not for ever.
bool ControllerCore::waits_for_fit_nodes() {
  const std::vector<Node> unfit = nodes_.unfit();
  if (options_.takes_over || unfit.empty() || nodes_.up() >= options_.nodes) {
    fit_ends_.reset();
    return false;
  }
  const std::string too_few = absl::StrCat(nodes_.up(), " of the ", options_.nodes,
                                           " machines that the job needs are there and fit");
  if (!fit_ends_) {
    fit_ends_ = now_ + options_.fit_max;
    tell(absl::StrCat(too_few, ": the job waits for others, at most ",
                      absl::FormatDuration(options_.fit_max)));
  }
  if (now_ < *fit_ends_) return true;
  std::vector<std::string> who;
  for (const Node node : unfit)
    who.push_back(
        absl::StrCat("node ", node.value, ": ", absl::StrJoin(nodes_.complaints(node), "; ")));
  end({.bad_input = true, .reason = absl::StrCat(too_few, ": ", absl::StrJoin(who, "; "))});
  return true;
}

// Whether machines reach each other is known when roles are given, but nothing waits for that for
// long: a machine that is cut off is found later, too.
bool ControllerCore::waits_for_network() {
  if (options_.takes_over || options_.network_max == absl::ZeroDuration() || is_network_checked_)
    return false;
  if (!network_ends_) {
    network_ends_ = now_ + options_.network_max;
    actions_.emplace_back(CheckNetwork{});
  }
  return now_ < *network_ends_;
}

}  // namespace evermoe
