#include "sim/simulated_fault.h"

#include "absl/strings/str_cat.h"

namespace evermoe {

std::string to_string(const SimulatedFault& d) {
  using Kind = SimulatedFault::Kind;
  const char* const kinds[] = {"kill worker",
                               "stop worker",
                               "cut",
                               "corrupt copies of",
                               "pause",
                               "hang",
                               "doom role",
                               "kill node",
                               "stop agent",
                               "stop node",
                               "kill controller",
                               "stop controller",
                               "cut the line of node",
                               "mute node",
                               "deafen node",
                               "slow the line of node",
                               "break the line of node"};
  std::string text = kinds[static_cast<int>(d.kind)];
  const bool is_about_node = d.kind >= Kind::kKillNode && d.kind != Kind::kKillController &&
                             d.kind != Kind::kStopController;
  if (is_about_node)
    absl::StrAppend(&text, " ", d.node.value < 0 ? "each" : absl::StrCat(d.node.value));
  if (d.kind < Kind::kKillNode) absl::StrAppend(&text, " ", d.rank.value);
  if (d.kind == Kind::kDoomRole) absl::StrAppend(&text, " on node ", d.node.value);
  if (d.kind == Kind::kCut) absl::StrAppend(&text, " from ", d.other.value);
  if (d.lasts > absl::ZeroDuration())
    absl::StrAppend(&text, " for ", absl::FormatDuration(d.lasts));
  if (d.agent_is_late) absl::StrAppend(&text, " unnoticed by its agent");
  if (d.point.empty()) return absl::StrCat(text, " at ", absl::FormatDuration(d.time));
  return absl::StrCat(text, " when ",
                      d.at_rank.value < 0 ? "any rank" : absl::StrCat("rank ", d.at_rank.value),
                      " passes ", d.point, " for time ", d.passing);
}

}  // namespace evermoe
