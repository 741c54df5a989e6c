// What a candidate for host of a job asks of the store, and when it may act as the host.
// Pure: answers and time in, the next question out.
//
//   looking --(nobody is elected)--> granting --> claiming --(we are)--> holding
//      ^                                  |             |                          |
//      +----------------------------------+-------------+--(lease not renewed)-----+
//
// A lease may be over at the store `ttl` after it has heard of it. The store heard of it after the
// question was sent: so we are elected until `ttl` after the sending of the newest question that
// was answered, less a margin for ending what acts in its name. No clocks are compared.
#pragma once

#include <optional>
#include <string>

#include "control/store/host_store.h"

namespace evermoe {

struct ElectionOptions {
  std::string address;  // where this candidate's controller listens
  absl::Duration ttl = absl::Seconds(5);
  absl::Duration margin = absl::Seconds(1);  // in which a host ends its controller
  absl::Duration keep = absl::Seconds(1);    // between two renewals
  absl::Duration look = absl::Milliseconds(500);
  absl::Duration retry = absl::Milliseconds(250);  // after a question that was not answered
};

struct ElectionQuestion {
  enum class Kind { kNone, kHolder, kGrant, kClaim, kKeepAlive, kRevoke };
  Kind kind = Kind::kNone;
  LeaseNumber lease = 0;
  absl::Duration at;  // kNone: nothing to ask before
};

class ElectionCore {
 public:
  // `now`, here and below, never goes back.
  ElectionCore(ElectionOptions options, absl::Duration now);

  // To be answered before the next call, with the moment before it was sent.
  ElectionQuestion next(absl::Duration now);
  void on_holder(absl::Duration now, const std::optional<ElectedHost>& holder);
  void on_granted(absl::Duration asked, LeaseNumber lease);
  void on_claimed(absl::Duration now, const ElectedHost& holder);
  void on_kept(absl::Duration asked);
  // The store says that the lease is over.
  void on_lease_over(absl::Duration now);
  // Of any question: no answer.
  void on_failed(absl::Duration now);

  // From now on it does not want to host, or wants it again.
  void resign() { wants_to_host_ = false; }
  void stand() { wants_to_host_ = true; }

  const std::string& address() const { return options_.address; }
  absl::Duration ttl() const { return options_.ttl; }
  bool holds(absl::Duration now) const { return phase_ == Phase::kHolding && now < valid_until_; }
  absl::Duration valid_until() const { return valid_until_; }
  // Where the host's controller is, as far as known; empty: nobody hosts.
  const std::string& host() const { return host_; }

 private:
  enum class Phase { kLooking, kGranting, kClaiming, kHolding, kRevoking };
  void look_at(absl::Duration at);

  const ElectionOptions options_;
  Phase phase_ = Phase::kLooking;
  bool wants_to_host_ = true;
  absl::Duration next_at_;
  LeaseNumber lease_ = 0;
  absl::Duration valid_until_ = -absl::InfiniteDuration();  // of the lease, less the margin
  std::string host_;
};

}  // namespace evermoe
