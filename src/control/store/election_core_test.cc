// The election of a job's host: at most one is elected at any moment, whatever gets lost or late.
#include "control/store/election_core.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <vector>

namespace evermoe {
namespace {

using Kind = ElectionQuestion::Kind;

absl::Duration at(double seconds) { return absl::Seconds(seconds); }

ElectionOptions options(const std::string& address = "a:1") {
  ElectionOptions options;
  options.address = address;
  return options;
}

// Is granted lease 7 at once, and has asked to be elected.
ElectionCore claiming() {
  ElectionCore core(options(), at(0));
  core.next(at(0));
  core.on_holder(at(0), std::nullopt);
  core.next(at(0));
  core.on_granted(at(0), 7);
  core.next(at(0));
  return core;
}

// Looks, is granted a lease at 0.1 and is elected at 0.2.
ElectionCore host() {
  ElectionCore core(options(), at(0));
  EXPECT_EQ(core.next(at(0)).kind, Kind::kHolder);
  core.on_holder(at(0.1), std::nullopt);
  EXPECT_EQ(core.next(at(0.1)).kind, Kind::kGrant);
  core.on_granted(at(0.1), 7);
  EXPECT_EQ(core.next(at(0.2)).kind, Kind::kClaim);
  EXPECT_FALSE(core.holds(at(0.2)));
  core.on_claimed(at(0.2), {"a:1", 7});
  EXPECT_TRUE(core.holds(at(0.2)));
  EXPECT_EQ(core.host(), "a:1");
  return core;
}

TEST(ElectionCore, WhereAnotherOneHostsItLooksAgain) {
  ElectionCore core(options(), at(0));
  core.next(at(0));
  core.on_holder(at(0), ElectedHost{"b:1", 3});
  EXPECT_EQ(core.host(), "b:1");
  EXPECT_EQ(core.next(at(0.4)).kind, Kind::kNone);
  EXPECT_EQ(core.next(at(0.5)).kind, Kind::kHolder);
  core.on_holder(at(0.5), std::nullopt);
  EXPECT_EQ(core.host(), "");
  EXPECT_EQ(core.next(at(0.5)).kind, Kind::kGrant);
}

TEST(ElectionCore, WhoWasSlowerGivesItsLeaseBack) {
  ElectionCore core = claiming();
  core.on_claimed(at(0.1), {"b:1", 3});
  EXPECT_FALSE(core.holds(at(0.1)));
  EXPECT_EQ(core.host(), "b:1");
  const ElectionQuestion question = core.next(at(0.1));
  EXPECT_EQ(question.kind, Kind::kRevoke);
  EXPECT_EQ(question.lease, 7);
}

TEST(ElectionCore, ARenewedLeaseCountsFromTheQuestion) {
  ElectionCore core = host();
  EXPECT_EQ(core.valid_until(), at(0.1 + 5 - 1)) << "from when it was asked for, less the margin";
  EXPECT_EQ(core.next(at(1.2)).kind, Kind::kKeepAlive);
  core.on_kept(at(1.2));
  EXPECT_EQ(core.valid_until(), at(1.2 + 5 - 1));
  EXPECT_EQ(core.next(at(2)).kind, Kind::kNone);
}

TEST(ElectionCore, WithoutAnswersItIsOverBeforeTheLeaseIs) {
  ElectionCore core = host();
  for (double now = 1.2; now < 4; now += 0.3) {
    EXPECT_EQ(core.next(at(now)).kind, Kind::kKeepAlive) << now;
    core.on_failed(at(now));
    EXPECT_TRUE(core.holds(at(now)));
  }
  EXPECT_LE(core.next(at(4.05)).at, at(4.1)) << "it does not sleep beyond its time";
  EXPECT_FALSE(core.holds(at(4.1)));
  EXPECT_EQ(core.next(at(4.4)).kind, Kind::kHolder);
  EXPECT_EQ(core.host(), "");
}

TEST(ElectionCore, ALeaseThatTheStoreForgotIsLeftAtOnce) {
  ElectionCore core = host();
  core.next(at(1.2));
  core.on_lease_over(at(1.3));
  EXPECT_FALSE(core.holds(at(1.3)));
  EXPECT_EQ(core.next(at(1.3)).kind, Kind::kHolder);
}

TEST(ElectionCore, AClaimWhoseAnswerWasLostIsRecognised) {
  ElectionCore core = claiming();
  core.on_failed(at(1));
  EXPECT_EQ(core.next(at(1.25)).kind, Kind::kClaim);
  core.on_claimed(at(1.3), {"a:1", 7});
  EXPECT_TRUE(core.holds(at(1.3)));
}

TEST(ElectionCore, AnElectionThatCameTooLateIsNone) {
  ElectionCore core = claiming();
  core.on_claimed(at(4.5), {"a:1", 7});
  EXPECT_FALSE(core.holds(at(4.5)));
  EXPECT_EQ(core.next(at(4.5)).kind, Kind::kRevoke);
}

TEST(ElectionCore, WhoResignsGivesItsLeaseBack) {
  ElectionCore core = host();
  core.resign();
  EXPECT_EQ(core.next(at(0.3)).kind, Kind::kRevoke);
  EXPECT_FALSE(core.holds(at(0.3)));
  core.on_lease_over(at(0.4));
  core.next(at(0.4));
  core.on_holder(at(0.4), std::nullopt);
  EXPECT_EQ(core.next(at(0.5)).kind, Kind::kNone) << "it does not want it any more";
  core.stand();
  EXPECT_EQ(core.next(at(0.9)).kind, Kind::kHolder);
}

// ---- any order of delays, losses and stalls

// The store, with its own clock: a lease is over `ttl` after the store has heard of it.
class Store {
 public:
  void expire(absl::Duration now) {
    std::erase_if(leases_, [&](const auto& lease) { return lease.second <= now; });
    if (elected_ && !leases_.contains(elected_->lease)) elected_.reset();
  }
  LeaseNumber grant(absl::Duration now) {
    leases_[++last_] = now + options().ttl;
    return last_;
  }
  bool keep(absl::Duration now, LeaseNumber lease) {
    if (!leases_.contains(lease)) return false;
    leases_[lease] = now + options().ttl;
    return true;
  }
  bool revoke(absl::Duration now, LeaseNumber lease) {
    const bool was_there = leases_.erase(lease) > 0;
    expire(now);
    return was_there;
  }
  std::optional<ElectedHost> claim(LeaseNumber lease, const std::string& address) {
    if (!leases_.contains(lease)) return std::nullopt;
    if (!elected_) elected_ = ElectedHost{address, lease};
    return elected_;
  }
  const std::optional<ElectedHost>& elected() const { return elected_; }

 private:
  std::map<LeaseNumber, absl::Duration> leases_;
  std::optional<ElectedHost> elected_;
  LeaseNumber last_ = 0;
};

// One question at a time: sent, carried out at the store later or never, answered later or never.
class Candidate {
 public:
  Candidate(int number, Store& store, std::mt19937_64& random)
      : store_(store), random_(random), core_(options(std::string(1, 'a' + number)), at(0)) {}

  void work(absl::Duration now) {
    if (now < stalled_until_) return;
    if (one_in(400)) {
      stalled_until_ = now + delay(3);
      return;
    }
    if (one_in(2000)) core_.resign();
    if (one_in(500)) core_.stand();
    if (question_.kind == Kind::kNone) return begin(now);
    if (!is_carried_out_ && now >= arrives_) carry_out(now);
    if (now >= answered_) finish(now);
  }
  bool holds(absl::Duration now) const { return core_.holds(now); }

 private:
  bool one_in(uint64_t n) { return random_() % n == 0; }
  absl::Duration delay(double seconds_max) {
    return absl::Seconds(seconds_max) * (static_cast<double>(random_() % 1000) / 1000);
  }
  void begin(absl::Duration now) {
    question_ = core_.next(now);
    if (question_.kind == Kind::kNone) return;
    asked_ = now;
    arrives_ = one_in(10) ? absl::InfiniteDuration() : now + delay(0.3);
    answered_ = one_in(10) ? absl::InfiniteDuration() : arrives_ + delay(0.3);
    gives_up_ = now + absl::Seconds(1);
    answered_ = std::min(answered_, gives_up_);
    is_carried_out_ = is_ok_ = false;
  }
  void carry_out(absl::Duration now) {
    is_carried_out_ = true;
    is_ok_ = true;
    if (question_.kind == Kind::kHolder) answer_ = store_.elected();
    if (question_.kind == Kind::kGrant) lease_ = store_.grant(now);
    if (question_.kind == Kind::kClaim) {
      answer_ = store_.claim(question_.lease, core_.address());
      is_ok_ = answer_.has_value();
    }
    if (question_.kind == Kind::kKeepAlive) is_ok_ = store_.keep(now, question_.lease);
    if (question_.kind == Kind::kRevoke) is_ok_ = store_.revoke(now, question_.lease);
  }
  void finish(absl::Duration now) {
    const Kind kind = std::exchange(question_.kind, Kind::kNone);
    if (!is_carried_out_ || answered_ >= gives_up_) return core_.on_failed(now);
    if (!is_ok_ || kind == Kind::kRevoke) return core_.on_lease_over(now);
    if (kind == Kind::kHolder) core_.on_holder(now, answer_);
    if (kind == Kind::kGrant) core_.on_granted(asked_, lease_);
    if (kind == Kind::kClaim) core_.on_claimed(now, *answer_);
    if (kind == Kind::kKeepAlive) core_.on_kept(asked_);
  }

  Store& store_;
  std::mt19937_64& random_;
  ElectionCore core_;
  ElectionQuestion question_;
  absl::Duration asked_, arrives_, answered_, gives_up_, stalled_until_;
  bool is_carried_out_ = false, is_ok_ = false;
  std::optional<ElectedHost> answer_;
  LeaseNumber lease_ = 0;
};

TEST(ElectionCore, NeverTwoAtOnce) {
  int changes = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    std::mt19937_64 random(seed);
    Store store;
    std::vector<Candidate> candidates;
    for (int i = 0; i < 3; ++i) candidates.emplace_back(i, store, random);
    int former = -1;
    for (absl::Duration now; now < absl::Minutes(2); now += absl::Milliseconds(10)) {
      store.expire(now);
      for (Candidate& candidate : candidates) candidate.work(now);
      int holders = 0, host = former;
      for (int i = 0; i < 3; ++i) {
        if (!candidates[static_cast<size_t>(i)].holds(now)) continue;
        ++holders;
        host = i;
      }
      ASSERT_LE(holders, 1) << "seed " << seed << " at " << now;
      changes += host != former ? 1 : 0;
      former = host;
    }
  }
  EXPECT_GT(changes, 300) << "hosts did change";
}

}  // namespace
}  // namespace evermoe
