#include "control/hosting/node_hosting.h"

#include <poll.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "control/folder/job_end.h"
#include "control/hosting/host_place.h"
#include "control/hosting/may_host_later.h"
#include "control/store/etcd_store.h"
#include "control/store/host_campaign.h"

namespace evermoe {
namespace {

// How often a node that could host looks whether anybody does, and how long a connection may take.
constexpr absl::Duration kLookEvery = absl::Seconds(2);
constexpr absl::Duration kConnectMax = absl::Seconds(2);
// After the end of the job, for the agent to hear of it from the controller.
constexpr absl::Duration kHearMax = absl::Seconds(20);
// Of a node that could not begin to host, before it stands for election again.
constexpr absl::Duration kHostPause = absl::Seconds(5);
constexpr size_t kHostOrdersMax = 1 << 10;

std::optional<NewestTerm> newest_in(const std::string& folder) {
  absl::StatusOr<NewestTerm> newest = newest_term(real_files(), folder);
  return newest.ok() ? std::optional(*std::move(newest)) : std::nullopt;
}

bool is_readable_within(int fd, absl::Duration time) {
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(time))) > 0;
}

}  // namespace

NodeHosting::NodeHosting(const NodeOptions& options, Agent& agent)
    : options_(options),
      agent_(agent),
      met_(newest_in(options.out)),
      grace_(met_ ? met_->term.number : 0),
      stopped_(kHostOrdersMax),
      finished_(1),
      won_(kHostOrdersMax),
      thread_([this] {
        if (options_.store.empty())
          wait_for_place();
        else
          campaign();
        finished_.put(true);
      }) {}

NodeHosting::~NodeHosting() { CHECK(!thread_.joinable()) << "end() was not called"; }

bool NodeHosting::is_only_host() {
  const MutexLock lock(mutex_);
  return options_.store.empty() && is_hosting_;
}

std::optional<absl::StatusOr<RunSummary>> NodeHosting::end(const std::optional<EndJob>& told,
                                                           const std::string& why) {
  {
    const MutexLock lock(mutex_);
    end_why_ = why;
    if (session_ != nullptr && !told) session_->quit(why);
  }
  if (told && told->is_dismissal) end_session("this machine leaves");
  stopped_.put(true);
  // The agent may have heard of the end from a former host's controller, which this node's never
  // learns of.
  if (!is_readable_within(finished_.fd(), kHearMax)) end_session("the job has ended");
  thread_.join();
  return std::move(summary_);
}

bool NodeHosting::is_stopped_within(absl::Duration time) {
  return is_readable_within(stopped_.fd(), time);
}

// ---- sessions

void NodeHosting::begin_session() {
  const auto orders = std::make_shared<HostOrders>();
  const MutexLock lock(mutex_);
  if (end_why_) return;
  session_ = orders;
  won_.put(orders);
}

bool NodeHosting::is_elected(const std::shared_ptr<HostOrders>& session) {
  const MutexLock lock(mutex_);
  return session_ == session;
}

void NodeHosting::end_session(const std::string& why) {
  const MutexLock lock(mutex_);
  if (session_ != nullptr) session_->resign(why);
  session_.reset();
}

// Until somebody else hosts, the agent stays with the controller of this node as long as that is
// there: one that lives takes who leaves it for lost.
void NodeHosting::set_hosting(bool is_hosting) {
  const MutexLock lock(mutex_);
  is_hosting_ = is_hosting;
  if (!is_hosting_ && !has_host_) agent_.look_for_controller_at("");
}

NodeHosting::Hosted NodeHosting::host(HostOrders& orders) {
  const auto newest = newest_in(options_.out);
  if (const auto end = newest ? end_since(met_, *newest) : std::nullopt) {
    end_as_told(*end);
    return Hosted::kToItsEnd;
  }
  set_hosting(true);
  absl::StatusOr<RunSummary> summary = options_.host(orders);
  if (summary.ok() && summary->status == RunStatus::kTakenOver) {
    job_goes_on_ = true;
    set_hosting(false);
    log_info(absl::StrCat("this node is no host any more: ", summary->reason));
    return Hosted::kTakenOver;
  }
  if (may_host_later(summary.status(), job_goes_on_, agent_.has_workers())) {
    log_warning(absl::StrCat("this node cannot host the job now, which goes on without it: ",
                             summary.status().message()));
    set_hosting(false);
    return Hosted::kNotNow;
  }
  tell_what_nobody_heard(options_.listen, options_.keys, options_.nodes, summary);
  const std::string how = summary.ok() ? summary->reason : std::string(summary.status().message());
  const bool is_told = summary.ok() && summary->exit_code == 0;
  // Where the controller could not tell the agent of this node, nobody else does.
  if (!is_told || !is_stopped_within(kHearMax)) agent_.quit(how);
  summary_ = std::move(summary);
  return Hosted::kToItsEnd;
}

void NodeHosting::end_as_told(const std::string& how) {
  const std::string reason = "the job has ended without this node: " + how;
  log_info(reason);
  agent_.quit(reason);
  EndJob end = end_that(how);
  if (end.ok) {
    summary_ = summary_of_end(how, reason);
  } else {
    end.reason = reason;
    summary_ = failure_of(end);
  }
}

// ---- without a store

void NodeHosting::wait_for_place() {
  std::string said;
  do {
    const absl::Status can_host = check_place();
    if (can_host.ok()) {
      begin_session();
      Hosted how = Hosted::kToItsEnd;
      for (const auto& orders : won_.take()) how = host(*orders);
      if (how != Hosted::kNotNow) return;
      continue;
    }
    if (said != can_host.message()) log_info(absl::StrCat("no host: ", can_host.message()));
    said = std::string(can_host.message());
  } while (!is_stopped_within(kLookEvery));
}

absl::Status NodeHosting::check_place() {
  const auto newest = newest_in(options_.out);
  if (newest) grace_.note(real_clock().now(), newest->term.number);
  if (is_answered(options_.controller, kConnectMax))
    return Internal(absl::StrCat("a controller answers at ", options_.controller));
  if (!grace_.is_over(real_clock().now()))
    return Internal(absl::StrCat("another host has just begun: ",
                                 newest ? newest->term.owner : "its term cannot be read"));
  return check_can_listen(options_.listen);
}

// ---- with a store

void NodeHosting::campaign() {
  const absl::StatusOr<std::string> folder = name_of_folder(real_files(), options_.out);
  absl::Status status = folder.status();
  if (status.ok()) status = campaign_in(absl::StrCat("evermoe/", *folder, "/host"));
  if (status.ok()) return;
  agent_.quit(std::string(status.message()));
  summary_ = status;
}

absl::Status NodeHosting::campaign_in(const std::string& key) {
  ASSIGN_OR_RETURN(const std::unique_ptr<HostStore> store,
                   open_etcd_store(options_.config.control, key));
  ElectionOptions own;
  own.address = options_.listen;
  own.ttl = absl::Seconds(options_.config.control.lease_seconds);
  CampaignEvents events;
  events.on_won = [this] { begin_session(); };
  events.on_lost = [this](const std::string& why) { end_session(why); };
  events.on_host = [this](const std::string& address) {
    if (!address.empty() && address != options_.listen) job_goes_on_ = true;
    log_info(address.empty() ? "nobody hosts the job" : "the host is at " + address);
    const MutexLock lock(mutex_);
    has_host_ = !address.empty();
    if (has_host_ || !is_hosting_) agent_.look_for_controller_at(address);
  };
  HostCampaign campaign(*store, own, real_clock(), std::move(events));
  for (;;) {
    pollfd waiting[] = {{stopped_.fd(), POLLIN, 0}, {won_.fd(), POLLIN, 0}};
    ::poll(waiting, std::size(waiting), -1);  // the owner ends it
    if ((waiting[0].revents & POLLIN) != 0) return absl::OkStatus();
    for (const auto& orders : won_.take()) {
      if (!is_elected(orders)) continue;  // it was lost again meanwhile
      if (host(*orders) == Hosted::kToItsEnd) return absl::OkStatus();
      // A host that is no longer elected stands again at once. One that could not begin, or whose
      // job another one has taken over all the same, would keep the others from it.
      if (!is_elected(orders)) continue;
      campaign.stand(false);
      if (is_stopped_within(kHostPause)) return absl::OkStatus();
      campaign.stand(true);
    }
  }
}

}  // namespace evermoe
