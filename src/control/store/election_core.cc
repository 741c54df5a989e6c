#include "control/store/election_core.h"

#include <algorithm>
#include <utility>

namespace evermoe {

ElectionCore::ElectionCore(ElectionOptions options, absl::Duration now)
    : options_(std::move(options)), next_at_(now) {}

void ElectionCore::look_at(absl::Duration at) {
  phase_ = Phase::kLooking;
  lease_ = 0;
  next_at_ = at;
}

ElectionQuestion ElectionCore::next(absl::Duration now) {
  using Kind = ElectionQuestion::Kind;
  if (phase_ == Phase::kHolding && now >= valid_until_) {
    host_.clear();
    look_at(now);
  }
  if (phase_ == Phase::kHolding && !wants_to_host_) {
    phase_ = Phase::kRevoking;
    next_at_ = now;
  }
  if (now < next_at_) {
    const bool can_end = phase_ == Phase::kHolding;
    return {Kind::kNone, 0, can_end ? std::min(next_at_, valid_until_) : next_at_};
  }
  switch (phase_) {
    case Phase::kLooking: return {Kind::kHolder, 0, now};
    case Phase::kGranting: return {Kind::kGrant, 0, now};
    case Phase::kClaiming: return {Kind::kClaim, lease_, now};
    case Phase::kHolding: return {Kind::kKeepAlive, lease_, now};
    case Phase::kRevoking: break;
  }
  return {Kind::kRevoke, lease_, now};
}

void ElectionCore::on_holder(absl::Duration now, const std::optional<ElectedHost>& holder) {
  host_ = holder ? holder->address : "";
  next_at_ = now + options_.look;
  if (holder || !wants_to_host_) return;
  phase_ = Phase::kGranting;
  next_at_ = now;
}

void ElectionCore::on_granted(absl::Duration asked, LeaseNumber lease) {
  lease_ = lease;
  valid_until_ = asked + options_.ttl - options_.margin;
  phase_ = Phase::kClaiming;
}

// A claim whose answer was lost shows the second time: by its lease.
void ElectionCore::on_claimed(absl::Duration now, const ElectedHost& holder) {
  host_ = holder.address;
  const bool is_ours = holder.lease == lease_;
  if (is_ours && now < valid_until_ && wants_to_host_) {
    phase_ = Phase::kHolding;
    next_at_ = std::min(now + options_.keep, valid_until_);
    return;
  }
  if (is_ours) host_.clear();
  phase_ = Phase::kRevoking;
  next_at_ = now;
}

void ElectionCore::on_kept(absl::Duration asked) {
  valid_until_ = std::max(valid_until_, asked + options_.ttl - options_.margin);
  next_at_ = asked + options_.keep;
}

void ElectionCore::on_lease_over(absl::Duration now) {
  if (phase_ == Phase::kHolding || phase_ == Phase::kRevoking) host_.clear();
  valid_until_ = now;
  look_at(now);
}

void ElectionCore::on_failed(absl::Duration now) {
  next_at_ = now + options_.retry;
  if (phase_ == Phase::kHolding) return;
  // A lease that may have been granted ends by itself; so does one that cannot be given back.
  if (phase_ == Phase::kRevoking || phase_ == Phase::kGranting || now >= valid_until_)
    look_at(next_at_);
}

}  // namespace evermoe
