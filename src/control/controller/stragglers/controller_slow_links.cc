// What a controller says about links that are slower than usual.

#include "absl/strings/str_format.h"
#include "control/controller/controller_core.h"

namespace evermoe {

void ControllerCore::note_links(const MemberAlive& event) {
  for (const LinkTime& time : event.link_times) {
    if (time.to.value >= roles_.size() || roles_[time.to].phase() == RoleState::Phase::kNone)
      continue;
    links_.note(now_, {roles_[event.rank].node, roles_[time.to].node}, step_of(progress_.newest()),
                time);
  }
}

void ControllerCore::tell_link(const SlowLinkWatch::Finding& finding) {
  const auto& [from, to] = finding.link;
  actions_.emplace_back(SlowLinkFound{from, to, finding.factor, finding.step, !finding.is_slow});
  const std::string link =
      absl::StrFormat("the link from node %d to node %d", from.value, to.value);
  if (!finding.is_slow) return tell(link + " is slow no more");
  const auto ms = [](absl::Duration time) { return absl::ToDoubleMilliseconds(time); };
  tell(absl::StrFormat(
      "%s is slow: messages take %.1f times as long as usual there, to step %d (a round trip %.2f "
      "ms instead of %.2f ms, a large message %.1f ms instead of %.1f ms)",
      link, finding.factor, finding.step.value, ms(finding.now.round_trip),
      ms(finding.usual.round_trip), ms(finding.now.bulk), ms(finding.usual.bulk)));
}

}  // namespace evermoe
