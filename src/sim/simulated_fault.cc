#include "sim/simulated_fault.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {
namespace {

std::string to_string(const MoveWanted& wish) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < wish.roles.size(); ++i) {
    const Rank before = wish.roles[i > 0 ? i - 1 : wish.roles.size() - 1];
    const std::string to = wish.to.empty()        ? "elsewhere"
                           : wish.to[i].value < 0 ? absl::StrCat("to the node of ", before.value)
                                                  : absl::StrCat("to node ", wish.to[i].value);
    parts.push_back(absl::StrCat(wish.roles[i].value, " ", to));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

const char* kind_name(SimulatedFault::Kind kind) {
  static constexpr const char* kNames[] = {"kill worker",
                                           "stop worker",
                                           "cut",
                                           "corrupt copies of",
                                           "pause",
                                           "hang",
                                           "doom role",
                                           "slow down",
                                           "move roles",
                                           "drain the job",
                                           "kill a standby of node",
                                           "kill node",
                                           "stop agent",
                                           "stop node",
                                           "suspend node",
                                           "make unfit node",
                                           "take away node",
                                           "kill controller",
                                           "stop controller",
                                           "change host",
                                           "fill the disk of rank",
                                           "cut the line of node",
                                           "mute node",
                                           "deafen node",
                                           "slow the line of node",
                                           "break the line of node",
                                           "cut the store from node",
                                           "mute the store for node",
                                           "stop the store of node",
                                           "cut node",
                                           "isolate node",
                                           "cut the workers of node",
                                           "mute the workers of node",
                                           "unplug node",
                                           "slow the link of node"};
  return kNames[static_cast<int>(kind)];
}

std::string to_string(const SimulatedFault& d) {
  using Kind = SimulatedFault::Kind;
  std::string text = kind_name(d.kind);
  const bool is_about_node = d.kind >= Kind::kKillStandby && d.kind != Kind::kKillController &&
                             d.kind != Kind::kStopController && d.kind != Kind::kChangeHost &&
                             d.kind != Kind::kFillDisk;
  const bool is_about_machine = d.kind >= Kind::kKillNode && d.kind <= Kind::kLeaveNode;
  if (is_about_node)
    absl::StrAppend(&text, " ",
                    d.node.value >= 0  ? absl::StrCat(d.node.value)
                    : is_about_machine ? "of the host"
                                       : "each");
  if (d.kind == Kind::kMoveRoles) {
    absl::StrAppend(&text, " ", to_string(d.wish));
  } else if ((d.kind < Kind::kKillStandby && d.kind != Kind::kDrainJob) ||
             d.kind == Kind::kFillDisk) {
    absl::StrAppend(&text, " ", d.rank.value);
  }
  if (d.kind == Kind::kSlowWorker) absl::StrAppend(&text, " by ", d.factor);
  if (d.kind == Kind::kDoomRole) absl::StrAppend(&text, " on node ", d.node.value);
  if (d.kind == Kind::kCutNodes || d.kind == Kind::kCutWorkers)
    absl::StrAppend(&text, " from ", d.peer.value);
  if (d.kind == Kind::kSlowLink) absl::StrAppend(&text, " to ", d.peer.value);
  if (d.kind == Kind::kMuteWorkers) absl::StrAppend(&text, " for those of ", d.peer.value);
  if (d.kind == Kind::kUnplugNode)
    absl::StrAppend(&text, d.with_agent ? " from everything" : " but for its agent");
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
