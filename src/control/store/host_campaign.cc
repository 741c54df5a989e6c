#include "control/store/host_campaign.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"

namespace evermoe {
namespace {

// Of one question: a member of the store that is away costs no more.
constexpr absl::Duration kAnswerMax = absl::Seconds(1);
constexpr absl::Duration kAnswerMin = absl::Milliseconds(20);

constexpr char kResigned[] = "it has resigned";

}  // namespace

HostCampaign::HostCampaign(HostStore& store, const ElectionOptions& options, Clock& clock,
                           CampaignEvents events)
    : store_(store),
      clock_(clock),
      events_(std::move(events)),
      core_(options, clock.now()),
      thread_([this] { work(); }) {}

HostCampaign::~HostCampaign() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
    has_changed_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HostCampaign::stand(bool wants_to_host) {
  {
    const MutexLock lock(mutex_);
    wants_to_host_ = wants_to_host;
    has_changed_ = true;
  }
  changed_.notify_all();
}

void HostCampaign::work() {
  for (;;) {
    const absl::Duration now = clock_.now();
    const ElectionQuestion question = core_.next(now);
    tell(now);
    if (question.kind != ElectionQuestion::Kind::kNone)
      ask(question);
    else if (!rest_until(question.at))
      break;
  }
  core_.resign();
  const ElectionQuestion last = core_.next(clock_.now());
  if (is_host_) events_.on_lost(kResigned);
  if (last.kind == ElectionQuestion::Kind::kRevoke) ask(last);
}

// False: it is to end.
bool HostCampaign::rest_until(absl::Duration time) {
  MutexLock lock(mutex_);
  changed_.wait_for(lock, std::max(time - clock_.now(), absl::ZeroDuration()),
                    [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return has_changed_; });
  has_changed_ = false;
  if (wants_to_host_)
    core_.stand();
  else
    core_.resign();
  return !is_ending_;
}

// Who is no longer elected hears of that first: nobody is to leave a host that acts.
void HostCampaign::tell(absl::Duration now) {
  const bool was_host = std::exchange(is_host_, core_.holds(now));
  if (was_host && !is_host_) {
    events_.on_lost(trouble_.empty() ? kResigned
                                     : absl::StrCat("the lease was not renewed: ", trouble_));
  }
  if (core_.host() != host_) events_.on_host(host_ = core_.host());
  if (!was_host && is_host_) events_.on_won();
}

void HostCampaign::ask(const ElectionQuestion& question) {
  using Kind = ElectionQuestion::Kind;
  const absl::Duration asked = clock_.now();
  absl::Duration timeout = kAnswerMax;
  // No longer than we are elected.
  if (question.kind == Kind::kKeepAlive)
    timeout = std::clamp(core_.valid_until() - asked, kAnswerMin, kAnswerMax);
  absl::Status status;
  if (question.kind == Kind::kHolder) {
    const auto holder = store_.holder(timeout);
    if (holder.ok()) core_.on_holder(clock_.now(), *holder);
    status = holder.status();
  } else if (question.kind == Kind::kGrant) {
    const auto lease = store_.grant(core_.ttl(), timeout);
    if (lease.ok()) core_.on_granted(asked, *lease);
    status = lease.status();
  } else if (question.kind == Kind::kClaim) {
    const auto holder = store_.claim(question.lease, core_.address(), timeout);
    if (holder.ok()) core_.on_claimed(clock_.now(), *holder);
    status = holder.status();
  } else if (question.kind == Kind::kKeepAlive) {
    status = store_.keep_alive(question.lease, timeout);
    if (status.ok()) core_.on_kept(asked);
  } else {
    status = store_.revoke(question.lease, timeout);
    if (status.ok()) core_.on_lease_over(clock_.now());
  }
  note(status);
}

void HostCampaign::note(const absl::Status& status) {
  const std::string trouble(status.message());
  if (!status.ok() && trouble != trouble_) log_warning(trouble);
  if (status.ok() && !trouble_.empty()) log_info("the store answers again");
  trouble_ = trouble;
  if (absl::IsNotFound(status))
    core_.on_lease_over(clock_.now());
  else if (!status.ok())
    core_.on_failed(clock_.now());
}

}  // namespace evermoe
