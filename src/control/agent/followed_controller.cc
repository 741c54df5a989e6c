#include "control/agent/followed_controller.h"

#include <algorithm>

namespace evermoe {

FollowedController::FollowedController(absl::Duration silence_max, absl::Duration own_standstill,
                                       absl::Duration now)
    : silence_max_(silence_max),
      heard_(now),
      own_lateness_(own_standstill),
      lateness_(own_standstill) {}

bool FollowedController::is_older(const Welcome& welcome) const {
  if (welcome.term.number != term_.number) return welcome.term.number < term_.number;
  return life_ && welcome.life < *life_;
}

bool FollowedController::is_of_another_job(const Welcome& welcome) const {
  return life_ && welcome.term.number > term_.number && !is_same_job(welcome.term, term_);
}

void FollowedController::meet(const Welcome& welcome) {
  life_ = welcome.life;
  term_ = welcome.term;
}

absl::Duration FollowedController::gone_at(absl::Duration now) const {
  return heard_ + silence_max_ +
         std::max(own_lateness_.allowance(now, silence_max_),
                  lateness_.allowance(now, silence_max_));
}

}  // namespace evermoe
