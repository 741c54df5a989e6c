#include "control/agent/member_description.h"

#include <vector>

#include "recovery/member/member.h"

namespace evermoe {

MemberJoined describe(const Member& member) {
  const MemberViews& views = member.views();
  MemberJoined joined;
  joined.run = member.run();
  joined.newest = member.newest_commit();
  // Read after the commit: that is of this plan or of one before, whose changes this one has, too.
  const auto plan = views.plan();
  const MemberViews::Standing standing = views.standing();
  joined.newest_view = views.newest_view();
  joined.is_open = plan != nullptr && plan->view == joined.newest_view;
  joined.has_finished = standing.is_finished;
  joined.stage_epoch = standing.stage_epoch;
  if (plan != nullptr) joined.lanes = plan->membership;
  const Step newest = step_of(joined.newest);
  std::erase_if(joined.lanes, [&](const MembershipChange& one) { return one.step > newest; });
  return joined;
}

}  // namespace evermoe
